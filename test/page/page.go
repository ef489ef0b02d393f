// Package page keeps the tables of docs/ that tests write.
package page

import (
	"os"
	"strings"
	"testing"
)

// Ends closes a table that a test writes.
const Ends = "<!-- End of the table. -->\n"

// Table compares a table with the one in a page, between the line begins and
// Ends, and fails the test when they differ. With update it writes it instead.
func Table(t testing.TB, file, begins, table string, update bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), begins)
	old, after, ended := strings.Cut(rest, Ends)
	switch {
	case !begun || !ended:
		t.Errorf("%s has lost the markers of its table", file)
	case update:
		if err := os.WriteFile(file, []byte(before+begins+table+Ends+after), 0o644); err != nil {
			t.Error(err)
		}
	case old != table:
		t.Errorf("%s does not show what was found; run the tests with -update.\nIt shows:\n%s\nFound:\n%s", file, old, table)
	}
}
