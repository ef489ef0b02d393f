package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// Clients count their own requests, often from 1, so ids say nothing about whose
// answer is whose.
func TestAnswersReachTheirAskersThoughAllUseOneID(t *testing.T) {
	const clients, calls = 50, 4
	upstream := mcptest.NewLegacy(mcptest.Tool{Name: "slow_echo", Run: slowEcho})
	g := Start(t, Options{
		Upstream: upstream.Start(t),
		Policy:   "defaults: {promoteAfter: 300ms, pollInterval: 500ms}\n",
		Config:   "limits: {maxOpenTasksPerPrincipal: 1000}\n",
	})
	newClient(t, g.Endpoint).call(t, "slow_echo", arguments{"label": "first"})
	before := g.metric(t, "go_goroutines")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for i := range clients {
		c := newClient(t, g.Endpoint)
		for j := range calls {
			wg.Go(func() {
				label := fmt.Sprintf("client %d call %d", i, j)
				id, err := c.begin(ctx, "slow_echo", arguments{"label": label}, mcptest.WithID(wire.Raw("1")))
				if err != nil {
					t.Error(err)
					return
				}
				task, err := c.WaitTask(ctx, id, wire.StatusCompleted)
				if err != nil || !strings.Contains(string(task.Get("result")), label) {
					t.Errorf("asked for %q, got %s (%v)", label, task.Bytes(), err)
				}
			})
		}
		defer c.Close()
	}
	wg.Wait()

	Eventually(t, "goroutines go back to what they were", func() bool {
		return g.metric(t, "go_goroutines") <= before+20 // idle connections to the upstream stay
	})
	if got, limit := g.metric(t, "process_resident_memory_bytes"), float64(512<<20); got > limit {
		t.Errorf("resident memory is %.0f bytes, more than %.0f", got, limit)
	}
}

// slowEcho returns its label after two seconds.
func slowEcho(c *mcptest.Call) (wire.Raw, *wire.Error) {
	label, _ := wire.String(c.Arguments.Get("label"))
	c.Sleep(2 * time.Second)
	return mcptest.Text(label), nil
}

// metric reads one value without labels from the admin listener.
func (g *Gateway) metric(t testing.TB, name string) float64 {
	t.Helper()
	resp, err := http.Get(g.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			f, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("metric %s: %v", name, err)
			}
			return f
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
