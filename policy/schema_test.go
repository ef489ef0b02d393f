package policy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"taskgate/internal/strictyaml"
)

func readSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := os.ReadFile("policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// TestSchemaMatchesTypes walks the schema and the Go types side by side.
func TestSchemaMatchesTypes(t *testing.T) {
	s := readSchema(t)
	compareObject(t, s, "document", reflect.TypeFor[document](), s, nil)
	compareObject(t, s, "rule", reflect.TypeFor[ruleDoc](), s.Defs["rule"], s.Defs["settings"])
	compareObject(t, s, "match", reflect.TypeFor[match](), s.Defs["match"], nil)
	compareObject(t, s, "settings", reflect.TypeFor[settings](), s.Defs["settings"], nil)
}

// compareObject compares a struct with an object schema and the one it includes.
func compareObject(t *testing.T, root *jsonschema.Schema, name string, typ reflect.Type, s, included *jsonschema.Schema) {
	t.Helper()
	props := map[string]*jsonschema.Schema{}
	for _, from := range []*jsonschema.Schema{s, included} {
		if from != nil {
			for k, v := range from.Properties {
				props[k] = v
			}
		}
	}
	for _, f := range reflect.VisibleFields(typ) {
		key := f.Tag.Get("yaml")
		if key == "" {
			continue
		}
		p := props[key]
		delete(props, key)
		if p == nil {
			t.Errorf("%s: the schema has no %q", name, key)
			continue
		}
		compareField(t, root, name+"."+key, f.Type, p)
	}
	for key := range props {
		t.Errorf("%s: the schema has %q, which is no field", name, key)
	}
}

func compareField(t *testing.T, root *jsonschema.Schema, name string, typ reflect.Type, p *jsonschema.Schema) {
	t.Helper()
	if p.Description == "" && (p.Ref == "" || root.Defs[strings.TrimPrefix(p.Ref, "#/$defs/")].Description == "") {
		t.Errorf("%s: no description", name)
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch e, isEnum := reflect.Zero(typ).Interface().(strictyaml.Enum); {
	case isEnum:
		var values []string
		for _, v := range p.Enum {
			values = append(values, v.(string))
		}
		if !slices.Equal(values, e.Values()) {
			t.Errorf("%s: the schema allows %v, the type %v", name, values, e.Values())
		}
	case typ == reflect.TypeFor[time.Duration]():
		if p.Ref != "#/$defs/duration" {
			t.Errorf("%s: is a duration", name)
		}
	case typ.Kind() == reflect.Struct && p.Ref == "":
		compareObject(t, root, name, typ, p, nil)
	case typ.Kind() == reflect.Int && p.Type != "integer", typ.Kind() == reflect.String && p.Type != "string", typ.Kind() == reflect.Slice && p.Type != "array":
		t.Errorf("%s: is %s in the schema, %s in Go", name, p.Type, typ)
	}
}

// TestSchemaDefaults compares the defaults in the schema with what is built in.
func TestSchemaDefaults(t *testing.T) {
	for _, v := range Default().fallback.values() {
		p := readSchema(t).Defs["settings"].Properties[v.Field]
		if p.Default == nil { // its members have theirs
			continue
		}
		var want any
		if err := json.Unmarshal(p.Default, &want); err != nil {
			t.Fatal(err)
		}
		got := v.Text
		if got == "none" {
			got = "0s"
		}
		if wantText, _ := json.Marshal(want); strings.Trim(string(wantText), `"`) != got {
			t.Errorf("%s: the schema says %s, built in is %s", v.Field, wantText, got)
		}
	}
}

func validator(t *testing.T) func(text string) error {
	t.Helper()
	resolved, err := readSchema(t).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			return err
		}
		return resolved.Validate(v)
	}
}

func TestSchemaAcceptsExamples(t *testing.T) {
	validate := validator(t)
	files, err := filepath.Glob("../examples/policies/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(string(data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Load([]string{name}, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSchemaRefusesWhatItCan: an editor shows these mistakes while they are made.
func TestSchemaRefusesWhatItCan(t *testing.T) {
	validate := validator(t)
	for _, name := range []string{
		"bare-number", "empty", "list-for-mapping", "list-for-value", "mapping-for-list", "no-attempt", "no-match",
		"no-value", "not-a-duration", "not-a-mapping", "number-for-text", "repeated-key", "same-name", "text-for-number",
		"unknown-key", "unknown-key-in-match", "unknown-nested-key", "unknown-profile", "unknown-word", "empty-match",
	} {
		data, err := os.ReadFile("testdata/bad/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if validate(string(data)) == nil {
			t.Errorf("%s: the schema accepts it", name)
		}
	}
}
