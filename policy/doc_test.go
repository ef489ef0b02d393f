package policy

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

var snippet = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestDocumentation loads every example of docs/policy.md, and wants a section
// with an example for each field.
func TestDocumentation(t *testing.T) {
	data, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, m := range snippet.FindAllStringSubmatch(text, -1) {
		if set, findings := compile([]content{{"docs/policy.md", []byte(m[1])}}, nil); set == nil || len(findings) > 0 {
			t.Errorf("%s\n%v", m[1], findings)
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[settings](), reflect.TypeFor[match]()} {
		for _, f := range reflect.VisibleFields(typ) {
			key := f.Tag.Get("yaml")
			_, section, ok := strings.Cut(text, "\n### "+key+"\n")
			section, _, _ = strings.Cut(section, "\n### ")
			if example := snippet.FindString(section); !ok || !strings.Contains(example, key+":") {
				t.Errorf("no section with an example for %s", key)
			}
		}
	}
}

// TestProfileFiles: the examples of profiles say what the profiles do.
func TestProfileFiles(t *testing.T) {
	for _, c := range []struct{ file, profile string }{{"sidecar", "profile: sidecar"}, {"edge", "profile: edge"}, {"default", "rules: []"}} {
		byFile, err := Load([]string{"../examples/policies/" + c.file + ".yaml"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, b := byFile.Decide(Query{}), load(t, c.profile).Decide(Query{})
		a.Source, b.Source = "", ""
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s.yaml:\n%+v\n%s:\n%+v", c.file, a, c.profile, b)
		}
	}
}
