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

// TestFindings loads each file of testdata/bad, or the files of a directory
// there, and compares what is found with the .txt beside it. What is called
// warn-* loads. Conditions see the header X-Team.
func TestFindings(t *testing.T) {
	entries, err := filepath.Glob("testdata/bad/*")
	if err != nil || len(entries) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, entry := range entries {
		if filepath.Ext(entry) == ".txt" {
			continue
		}
		t.Run(filepath.Base(entry), func(t *testing.T) {
			contents, findings := readAll([]string{entry})
			if findings != nil {
				t.Fatal(findings)
			}
			for i := range contents {
				contents[i].name = filepath.Base(contents[i].name)
			}
			set, findings := compile(contents, SeesOnly([]string{"X-Team"}))
			if loads := strings.HasPrefix(filepath.Base(entry), "warn-"); loads != (set != nil) || len(findings) == 0 {
				t.Errorf("loaded: %v, findings: %d", set != nil, len(findings))
			}
			golden(t, strings.TrimSuffix(entry, ".yaml")+".txt", findings.Error()+"\n")
		})
	}
}
