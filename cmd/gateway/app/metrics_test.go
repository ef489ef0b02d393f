package app

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/config"
)

var update = flag.Bool("update", false, "rewrite the table of metrics in docs/operations.md")

const (
	operations = "../../../docs/operations.md"
	tableBegin = "<!-- The table is written by: go test ./cmd/gateway/app -run Metrics -update -->\n"
	tableEnd   = "<!-- End of the table. -->\n"
)

func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), tableBegin)
	shown, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", operations)
	}
	want := metricsTable(t)
	if *update {
		if err := os.WriteFile(operations, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if shown != want {
		t.Errorf("the table in %s is not what the gateway has; run this test with -update. Want:\n%s", operations, want)
	}
}

// metricsTable lists the gateway's own metrics: those of the registry of a
// gateway with one upstream.
func metricsTable(t *testing.T) string {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.AdminListen, cfg.Store = "127.0.0.1:0", "", "memory"
	if err := cfg.SetUpstream("http://127.0.0.1:1/mcp"); err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), cfg, "test", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var rows []string
	for _, d := range describe(a.metrics) {
		if row := tableRow(t, d); row != "" {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		t.Fatal("no metrics")
	}
	slices.Sort(rows)
	return "| metric | labels | what it is |\n|---|---|---|\n" + strings.Join(rows, "")
}

func describe(c prometheus.Collector) []*prometheus.Desc {
	ch := make(chan *prometheus.Desc)
	go func() {
		c.Describe(ch)
		close(ch)
	}()
	var all []*prometheus.Desc
	for d := range ch {
		all = append(all, d)
	}
	return all
}

// description is what a Desc says of itself; it has no accessors.
var description = regexp.MustCompile(`^Desc\{fqName: ("taskgate_[^"]*"), help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

// tableRow is "" for what is not the gateway's own.
func tableRow(t *testing.T, d *prometheus.Desc) string {
	t.Helper()
	m := description.FindStringSubmatch(d.String())
	if m == nil {
		if strings.Contains(d.String(), "taskgate_") {
			t.Errorf("cannot read %s", d)
		}
		return ""
	}
	name, err := strconv.Unquote(m[1])
	if err != nil {
		t.Fatal(err)
	}
	help, err := strconv.Unquote(m[2])
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, list := range m[3:] {
		for label := range strings.SplitSeq(list, ",") {
			if label, _, _ = strings.Cut(label, "="); label != "" {
				labels = append(labels, "`"+strings.TrimSpace(label)+"`")
			}
		}
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", name, strings.Join(labels, ", "), help)
}
