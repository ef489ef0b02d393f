package stories

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is a test as the pages name it.
var named = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)(?:/([a-z0-9-]+))?`")

// Some pages say by which test each sentence holds. They may name no other tests
// than there are.
func TestThePagesNameRealTests(t *testing.T) {
	functions := testFunctions(t)
	for page, least := range map[string]int{"conformance.md": 30, "security.md": 30, "compatibility.md": 40} {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		tests := named.FindAllStringSubmatch(string(text), -1)
		if len(tests) < least {
			t.Errorf("%s names only %d tests", page, len(tests))
		}
		for _, m := range tests {
			name, story := m[1], m[2]
			if !functions[name] {
				t.Errorf("%s: %s: there is no such test", page, name)
			}
			if story == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join("testdata", story+".txtar")); name != "TestStories" || err != nil {
				t.Errorf("%s: %s/%s: there is no such story", page, name, story)
			}
		}
	}
}

var function = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(`)

// testFunctions are the names of all tests of the module.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			if d != nil && d.IsDir() && err == nil {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
