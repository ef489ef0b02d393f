package conformance

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"taskgate/test/page"
)

var update = flag.Bool("update", false, "write the numbers into docs/conformance.md")

// docs is where the numbers are published, after the line tableBegins.
const (
	docs        = "../../docs/conformance.md"
	tableBegins = "<!-- The table is written by `go test ./test/conformance -update`. -->\n"
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
	page.Table(t, docs, tableBegins, table, *update)
}

func render(rows []row) string {
	var b strings.Builder
	b.WriteString("| checks | upstream | met | excused |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %d/%d | %d |\n", r.checks, r.upstream, r.verdict.Met, r.verdict.Wanted, r.verdict.Excused)
	}
	return b.String()
}
