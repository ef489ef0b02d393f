// Package page writes what was measured into a page that people write: between
// markers, so that the words around it stay.
package page

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// Replace puts text between the markers of a part of a file:
//
//	<!-- measured: NAME -->
//	<!-- end of NAME -->
func Replace(file, name, text string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	start, end := fmt.Appendf(nil, "<!-- measured: %s -->\n", name), fmt.Appendf(nil, "<!-- end of %s -->\n", name)
	before, rest, found := bytes.Cut(page, start)
	_, after, closed := bytes.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s: there is no place for %q: add the lines\n%s%s", file, name, start, end)
	}
	return os.WriteFile(file, bytes.Join([][]byte{before, start, []byte(text), end, after}, nil), 0o644)
}

// Table is one in Markdown.
type Table struct {
	lines []string
}

// NewTable returns a table with these columns.
func NewTable(columns ...string) *Table {
	t := &Table{}
	t.Add(columns...)
	t.Add(strings.Split(strings.Repeat("---,", len(columns)-1)+"---", ",")...)
	return t
}

// Add adds a row.
func (t *Table) Add(cells ...string) {
	t.lines = append(t.lines, "| "+strings.Join(cells, " | ")+" |")
}

func (t *Table) String() string { return strings.Join(t.lines, "\n") + "\n" }
