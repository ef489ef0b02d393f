package stories

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is a test as docs/conformance.md names it.
var named = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)(?:/([a-z0-9-]+))?`")

// The page says by which test each sentence holds. It may name no other tests
// than there are.
func TestThePageNamesRealTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	functions := testFunctions(t)
	tests := named.FindAllStringSubmatch(string(page), -1)
	if len(tests) < 30 {
		t.Errorf("the page names only %d tests", len(tests))
	}
	for _, m := range tests {
		name, story := m[1], m[2]
		if !functions[name] {
			t.Errorf("%s: there is no such test", name)
		}
		if story == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join("testdata", story+".txtar")); name != "TestStories" || err != nil {
			t.Errorf("%s/%s: there is no such story", name, story)
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
