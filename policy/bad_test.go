package policy

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file, or rewrites the file with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

// TestFindings loads each file of testdata/bad and compares what is found with
// the .txt beside it. Files called warn-* load. Conditions see the header X-Team.
func TestFindings(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			set, findings := compile([]content{{filepath.Base(name), data}}, SeesOnly([]string{"X-Team"}))
			if loads := strings.HasPrefix(filepath.Base(name), "warn-"); loads != (set != nil) || len(findings) == 0 {
				t.Errorf("loaded: %v, findings: %d", set != nil, len(findings))
			}
			golden(t, strings.TrimSuffix(name, ".yaml")+".txt", findings.Error()+"\n")
		})
	}
}
