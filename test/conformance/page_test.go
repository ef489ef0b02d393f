package conformance

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the numbers into docs/conformance.md")

// page is where the numbers are published, between two markers.
const (
	page        = "../../docs/conformance.md"
	tableBegins = "<!-- The table is written by `go test ./test/conformance -update`. -->\n"
	tableEnds   = "<!-- End of the table. -->\n"
)

type row struct {
	checks, upstream string
	verdict          Verdict
}

// publish compares the numbers with those of the page, which must not be better
// or worse than they are, and writes them to where make prints them from.
func publish(t *testing.T, rows []row) {
	t.Helper()
	table := render(rows)
	if file := os.Getenv("TASKGATE_CONFORMANCE_TABLE"); file != "" {
		if err := os.WriteFile(file, []byte(table), 0o644); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), tableBegins)
	old, after, ended := strings.Cut(rest, tableEnds)
	switch {
	case !begun || !ended:
		t.Errorf("%s has lost the markers of its table", page)
	case *update:
		if err := os.WriteFile(page, []byte(before+tableBegins+table+tableEnds+after), 0o644); err != nil {
			t.Error(err)
		}
	case old != table:
		t.Errorf("%s does not show what was found; run the tests with -update.\nIt shows:\n%s\nFound:\n%s", page, old, table)
	}
}

func render(rows []row) string {
	var b strings.Builder
	b.WriteString("| checks | upstream | met | excused |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %d/%d | %d |\n", r.checks, r.upstream, r.verdict.Met, r.verdict.Wanted, r.verdict.Excused)
	}
	return b.String()
}
