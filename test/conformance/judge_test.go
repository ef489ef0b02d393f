package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestJudgeComplainsOfWhatTheSuiteLeavesGreen(t *testing.T) {
	report := Report{
		"a/met":     {Status: Success},
		"a/skipped": {Status: "SKIPPED", ErrorMessage: "not applicable"},
		"a/extra":   {Status: "FAILURE", ErrorMessage: "timeout"},
		"b/known":   {Status: "WARNING", ErrorMessage: "no hint"},
		"b/cured":   {Status: Success},
	}
	want := []Key{"a/met", "a/skipped", "a/absent", "b/known"}
	excuses := []Excuse{{Checks: []Key{"b/known", "b/cured"}, Reason: "the upstream has no hint"}}

	got := Judge(report, want, excuses)

	complaints := []string{
		"a/absent: the suite did not make this check",
		"a/extra: FAILURE: timeout",
		"a/skipped: SKIPPED: not applicable",
		"b/cured: is excused, but there is nothing to excuse",
	}
	if !slices.Equal(got.Complaints, complaints) {
		t.Errorf("complaints:\n%s\nwant:\n%s", strings.Join(got.Complaints, "\n"), strings.Join(complaints, "\n"))
	}
	if got.Met != 1 || got.Wanted != 4 || got.Excused != 1 {
		t.Errorf("met %d, wanted %d, excused %d; want 1, 4, 1", got.Met, got.Wanted, got.Excused)
	}
}

func TestRepeatedCheckIDsAreToldApart(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "server-caching-2026-11-29T14-52-24-362Z")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	checks := `[{"id":"x","status":"SUCCESS"},{"id":"x","status":"FAILURE","errorMessage":"second"}]`
	if err := os.WriteFile(filepath.Join(folder, "checks.json"), []byte(checks), 0o644); err != nil {
		t.Fatal(err)
	}
	r := Report{}
	if err := r.read(dir); err != nil {
		t.Fatal(err)
	}
	if len(r) != 2 || r["caching/x"].Status != Success || r["caching/x#2"].ErrorMessage != "second" {
		t.Errorf("report: %v", r)
	}
}

func TestExcusesNeedAReason(t *testing.T) {
	for _, text := range []string{
		"lane: [{checks: [a/b]}]",
		"lane: [{reason: why}]",
		"lane: [{checks: [a/b], reason: why}, {checks: [a/b], reason: again}]",
		"lane: [{checks: [a/b], reason: why, note: unknown member}]",
	} {
		if _, err := ParseExcuses([]byte(text)); err == nil {
			t.Errorf("accepted:\n%s", text)
		}
	}
}
