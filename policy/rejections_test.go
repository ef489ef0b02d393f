package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestEveryFindingHasItsFile: whatever this package can find wrong is found in a
// file of testdata, with the message that is wanted.
func TestEveryFindingHasItsFile(t *testing.T) {
	var wanted strings.Builder
	for _, pattern := range []string{"testdata/bad/*.txt", "testdata/check.txt"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no files: %v", err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			wanted.Write(text)
		}
	}
	found := 0
	for at, format := range findingFormats(t) {
		found++
		text := regexp.MustCompile(`%[sdqv]`).ReplaceAllString(regexp.QuoteMeta(format), ".*")
		if !regexp.MustCompile("(?m): (error|warning): .*" + text + "$").MatchString(wanted.String()) {
			t.Errorf("%s: no file of testdata has this finding: %s", at, format)
		}
	}
	if found < 20 {
		t.Errorf("only %d findings in the source", found)
	}
}

// findingFormats are the formats of all calls of find, by where they are.
func findingFormats(t *testing.T) map[token.Position]string {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	formats := map[token.Position]string{}
	files := token.NewFileSet()
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if to, ok := call.Fun.(*ast.SelectorExpr); !ok || to.Sel.Name != "find" {
				return true
			}
			for _, arg := range call.Args[2:] { // after severity and place the first text is the format
				text, ok := arg.(*ast.BasicLit)
				if format, err := literalText(text); ok && err == nil && strings.Contains(format, " ") {
					formats[files.Position(call.Pos())] = format
					break
				}
			}
			return true
		})
	}
	return formats
}

func literalText(l *ast.BasicLit) (string, error) {
	if l == nil || l.Kind != token.STRING {
		return "", strconv.ErrSyntax
	}
	return strconv.Unquote(l.Value)
}
