// Package taskgate_test checks what holds for the module as a whole.
package taskgate_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "taskgate"

// anyPackage allows every arrow.
const anyPackage = "any"

// arrows says which packages of this module the files of a package may import;
// its tests may import more. A package that no row names may not exist.
var arrows = map[string][]string{
	"wire":                {},
	"audit":               {},
	"obs":                 {},
	"quota":               {},
	"internal/strictyaml": {},
	"internal/livefile":   {},
	"internal/seal":       {},
	"auth":                {"internal/livefile"},
	"auth/*":              {"auth"},
	"policy":              {"internal/strictyaml"},
	"config":              {"internal/strictyaml", "internal/seal"},
	"taskroute":           {"wire", "internal/seal"},
	"taskroute/*":         {"taskroute"},
	"internal/h1":         {},
	"upstream":            {"wire", "internal/h1"},
	"reqcoord":            {"wire", "upstream"},
	"tracing":             {"wire", "policy", "upstream"},
	"taskrun":             {"wire", "policy", "taskroute", "reqcoord", "upstream", "tracing"},
	"proxy":               {"wire", "auth", "audit", "quota", "policy", "taskroute", "reqcoord", "taskrun", "upstream", "tracing"},
	"legacyfront":         {"wire", "taskroute", "proxy"},
	"tasks2025":           {"wire", "legacyfront"},
	"stdiofront":          {"wire"},
	"admin":               {"taskroute", "reqcoord", "taskrun"},
	"internal/demo":       {"wire"},
	"cmd/gateway/app":     {anyPackage},
	"cmd/gateway/app/*":   {anyPackage},
	"cmd/gateway":         {anyPackage},
	"internal/mcptest":    {"wire"},
	"internal/mcptest/*":  {"wire", "internal/mcptest"},
	"internal/redistest":  {},
	"internal/bubble":     {},
	"internal/pipe":       {},
	"test/*":              {"wire", "internal/mcptest", "internal/redistest"},
	"bench":               {anyPackage},
	"bench/*":             {"bench/rig"},
	"bench/sim":           {"policy", "taskroute", "taskroute/memstore", "reqcoord", "upstream", "taskrun"},
}

func TestImportArrows(t *testing.T) {
	for file, imports := range imports(t) {
		pkg := path.Dir(file)
		allowed, ok := allowedFor(pkg)
		if !ok {
			t.Errorf("%s: package %s has no row in arrows; give it one here and in ARCHITECTURE.md", file, pkg)
			continue
		}
		for _, imported := range imports {
			if !slices.Contains(allowed, imported) && !slices.Contains(allowed, anyPackage) {
				t.Errorf("%s: package %s may not import %s", file, pkg, imported)
			}
		}
	}
}

func allowedFor(pkg string) ([]string, bool) {
	if allowed, ok := arrows[pkg]; ok {
		return allowed, true
	}
	for pattern, allowed := range arrows {
		if ok, err := path.Match(pattern, pkg); err == nil && ok {
			return allowed, true
		}
	}
	return nil, false
}

// imports are the packages of this module that each file imports, but for tests.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (ignored(d.Name()) || isModule(file)):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		own := []string{}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if pkg, ok := strings.CutPrefix(name, module+"/"); ok {
				own = append(own, pkg)
			}
		}
		out[filepath.ToSlash(file)] = own
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatal("found no files")
	}
	return out
}

// isModule tells a folder that is a module of its own.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// ignored folders are those of which the go command knows nothing either.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules"
}

// row is a row of the table of packages in ARCHITECTURE.md.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| ([^|]+) \\|$")

func TestArchitectureShowsTheArrows(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		shown[m[1]] = []string{}
		for name := range strings.SplitSeq(m[2], ", ") {
			if name = strings.Trim(name, "` "); name != "–" {
				shown[m[1]] = append(shown[m[1]], name)
			}
		}
	}
	if !maps.EqualFunc(shown, arrows, sameNames) {
		for pkg, allowed := range arrows {
			if got, ok := shown[pkg]; !ok || !sameNames(got, allowed) {
				t.Errorf("ARCHITECTURE.md: package %s: shown %q, holds %q", pkg, got, allowed)
			}
		}
		for pkg := range shown {
			if _, ok := arrows[pkg]; !ok {
				t.Errorf("ARCHITECTURE.md: package %s has a row, but none in arrows", pkg)
			}
		}
	}
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
