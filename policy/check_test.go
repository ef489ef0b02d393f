package policy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckAgainstTools(t *testing.T) {
	s := load(t, `
rules:
  - match: {upstream: reports, tool: exprot_csv}
  - match: {upstream: reports, tool: "imoprt_*"}
  - match: {upstream: report, tool: "*"}
  - match: {tool: zzz}
  - match: {tool: "*_all"}
    onLoss: rerun
    maxAttempts: 2
  - match: {tool: "export_*"}
  - match: {upstream: batch, tool: slow}
    undeclared: jobs
`)
	got := Check(s, map[string]Upstream{
		"reports": {Tools: []Tool{{Name: "export_csv"}, {Name: "import_csv"}, {Name: "import_pdf"}}},
		"batch":   {Tools: []Tool{{Name: "slow"}, {Name: "j_job_status"}, {Name: "job_result"}}, JobPrefix: "j_"},
		"files": {Tools: []Tool{
			{Name: "read_all", Annotations: json.RawMessage(`{"readOnlyHint": true}`)},
			{Name: "sync_all", Annotations: json.RawMessage(`{"idempotentHint": true, "destructiveHint": true}`)},
			{Name: "wipe_all", Annotations: json.RawMessage(`{"destructiveHint": true}`)},
			{Name: "send_all"},
			{Name: "odd_all", Annotations: json.RawMessage(`{"idempotentHint": "yes"}`)},
		}},
	})
	golden(t, "testdata/check.txt", got.Error()+"\n")
}

func TestCheckSaysNothingWhenAllIsWell(t *testing.T) {
	s := load(t, `rules: [{match: {upstream: reports, tool: "export_*"}}]`)
	if got := Check(s, map[string]Upstream{"reports": {Tools: []Tool{{Name: "export_csv"}}}}); len(got) > 0 {
		t.Error(got)
	}
}

// TestCheckFiles: what `gateway check` prints, and whether it exits with 1.
func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.yaml", "defaults: {maxAttempts: 2}\nrules: [{match: {tool: exprt}}]\n")
	bad := write("bad.yaml", "defaults: {ttl: 1}\n")
	tools := map[string]Upstream{"default": {Tools: []Tool{{Name: "export"}}}}
	for _, c := range []struct {
		files []string
		ok    bool
		want  []string
	}{
		{[]string{good}, true, []string{"good.yaml:1: warning: defaults.maxAttempts", "good.yaml:2: warning: rules[0].match.tool", "did you mean export?", "rules: 1, errors: 0, warnings: 2"}},
		{[]string{good, bad}, false, []string{"bad.yaml:1: error: defaults.ttl", "good.yaml:1: warning", "errors: 1, warnings: 1"}},
		{[]string{filepath.Join(dir, "none.yaml")}, false, []string{"none.yaml: error: no such file or directory", "errors: 1"}},
		{nil, true, []string{"rules: 0, errors: 0, warnings: 0"}},
	} {
		var b strings.Builder
		ok, err := CheckFiles(&b, c.files, nil, tools)
		if ok != c.ok || err != nil {
			t.Errorf("%v: got %v, %v", c.files, ok, err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%v: no %q in:\n%s", c.files, want, b.String())
			}
		}
	}
}

func TestDirectories(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"b.yaml": "rules: [{name: b, match: {tool: \"*\"}}]", "a.yml": "rules: [{name: a, match: {tool: x}}]",
		".hidden.yaml": "nonsense", "notes.txt": "nonsense",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Load([]string{dir, filepath.Join(dir, "b.yaml")}, nil) // the second is there already
	if err != nil {
		t.Fatal(err)
	}
	if a, b := s.Decide(Query{Tool: "x"}).Rule, s.Decide(Query{Tool: "y"}).Rule; a != "a" || b != "b" {
		t.Errorf("decided by %s and %s", a, b)
	}
	if _, err := Load([]string{empty}, nil); err == nil || !strings.Contains(err.Error(), "has no .yaml or .yml files") {
		t.Errorf("an empty directory: %v", err)
	}
}
