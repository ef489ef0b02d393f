package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplaceLeavesTheWords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	const before = "Words.\n<!-- measured: a -->\nold\n<!-- end of a -->\nMore words.\n<!-- measured: b -->\n<!-- end of b -->\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	table := NewTable("what", "how fast")
	table.Add("this", "quick")
	if err := Replace(file, "a", table.String()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(before, "old\n", "| what | how fast |\n| --- | --- |\n| this | quick |\n", 1)
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestReplaceSaysWhichPlaceIsMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte("<!-- measured: a -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if err := Replace(file, name, ""); err == nil || !strings.Contains(err.Error(), "end of "+name) {
			t.Errorf("%s: error %v does not say what to add", name, err)
		}
	}
}
