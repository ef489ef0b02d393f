package matrix

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"taskgate/test/e2e"
	"taskgate/test/page"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

var update = flag.Bool("update", false, "write the table into docs/compatibility.md")

//go:embed reasons.yaml
var reasonsFile []byte

const (
	docs        = "../../docs/compatibility.md"
	tableBegins = "<!-- The table is written by `go test ./test/matrix -update`. -->\n"
)

const (
	// policy makes a task, or a held call, of what takes longer than a moment.
	policy = "defaults: {promoteAfter: 50ms, pollInterval: 100ms}\n"
	// atOnce is how many clients run at a time.
	atOnce = 4
	// patience is for all steps of a client on a busy machine.
	patience = 3 * time.Minute
)

func TestMatrix(t *testing.T) {
	clients := clients(t)
	reasons, err := ParseReasons(reasonsFile, names(clients, func(c client) string { return c.name }), names(servers, func(s server) string { return s.name }))
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string][]string{}
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			g := e2e.Start(t, e2e.Options{Upstream: s.start(t), Policy: policy})
			for i, said := range takeAll(t, g.Endpoint, s.plan, clients) {
				missing, complaints := Judge(clients[i].name, s.name, said, reasons)
				for _, c := range complaints {
					t.Errorf("%s: %s", clients[i].name, c)
				}
				cells[clients[i].name] = append(cells[clients[i].name], cell(missing))
			}
			// What was cancelled must have been cancelled all the way.
			e2e.Eventually(t, "no call is left at the gateway", func() bool { return strings.Contains(get(t, g.Admin+"/calls"), `"calls":[]`) })
		})
	}
	if !t.Failed() {
		page.Table(t, docs, tableBegins, render(clients, cells, reasons), *update)
	}
}

// takeAll leads all clients through a plan and returns what each says.
func takeAll(t *testing.T, url string, p plan, clients []client) [][]Step {
	said := make([][]Step, len(clients))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, c := range clients {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			steps, err := c.take(ctx, url, p)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			said[i] = steps
			return nil
		})
	}
	group.Wait()
	return said
}

func get(t *testing.T, url string) string {
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func names[T any](of []T, name func(T) string) []string {
	var all []string
	for _, x := range of {
		all = append(all, name(x))
	}
	return all
}

// cell is what the table says of one client and one server.
func cell(missing []Missing) string {
	if len(missing) == 0 {
		return "works"
	}
	var without []string
	for _, m := range missing {
		without = append(without, fmt.Sprintf("%s (%d)", m.Step, m.Reason+1))
	}
	return "all but " + strings.Join(without, ", ")
}

func render(clients []client, cells map[string][]string, reasons []Reason) string {
	var b strings.Builder
	b.WriteString("| client |")
	for _, s := range servers {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(servers)) + "\n")
	for _, c := range clients {
		fmt.Fprintf(&b, "| %s | %s |\n", c.name, strings.Join(cells[c.name], " | "))
	}
	b.WriteString("\n")
	for i, r := range reasons {
		fmt.Fprintf(&b, "%d. %s\n", i+1, r.Reason)
	}
	return b.String()
}
