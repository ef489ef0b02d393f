package livefile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func joined(contents [][]byte) (string, error) {
	out := ""
	for _, c := range contents {
		if string(c) == "bad" {
			return "", errors.New("it is bad")
		}
		out += string(c) + ";"
	}
	return out, nil
}

func TestReload(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	write(t, a, "1")
	write(t, b, "2")
	f, err := Open(joined, a, b)
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name    string
		change  func()
		changed bool
		failed  bool
		want    string
	}{
		{"nothing happened", func() {}, false, false, "1;2;"},
		{"one of the two changes", func() { write(t, b, "3") }, true, false, "1;3;"},
		{"what was in one is in the other", func() { write(t, a, "13"); write(t, b, "") }, true, false, "13;;"},
		{"wrong content keeps the last good one", func() { write(t, a, "bad") }, false, true, "13;;"},
		{"and is reported once", func() {}, false, false, "13;;"},
		{"a missing file too", func() { _ = os.Remove(a) }, false, true, "13;;"},
		{"until it is back", func() { write(t, a, "4") }, true, false, "4;;"},
	}
	for _, s := range steps {
		s.change()
		changed, err := f.Reload()
		if changed != s.changed || (err != nil) != s.failed || f.Get() != s.want {
			t.Errorf("%s: got %q, changed %v, %v", s.name, f.Get(), changed, err)
		}
	}
}

func TestRunReportsChangesAndFailures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "1")
	f, err := Open(joined, path)
	if err != nil {
		t.Fatal(err)
	}
	var reports []error
	report := func(err error) { reports = append(reports, err) }
	f.runOnce(report)
	write(t, path, "2")
	f.runOnce(report)
	write(t, path, "bad")
	f.runOnce(report)
	if len(reports) != 2 || reports[0] != nil || reports[1] == nil {
		t.Errorf("got reports %v, want a change and a failure", reports)
	}
}

func TestOpenFailsOnWhatIsWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if _, err := Open(joined, path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
	write(t, path, "bad")
	if _, err := Open(joined, path); err == nil {
		t.Error("a wrong file was opened")
	}
}
