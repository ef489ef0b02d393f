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

	"taskgate/wire"
)

// Clients count their own requests, often from 1, so ids say nothing about whose
// answer is whose.
func TestAnswersReachTheirAskersThoughAllUseOneID(t *testing.T) {
	const clients, calls = 50, 4
	g := Start(t, Options{
		Upstream: StartFixture(t, "legacy"),
		Policy:   "defaults: {promoteAfter: 300ms, pollInterval: 500ms}\n",
		Config:   "limits: {maxOpenTasksPerPrincipal: 1000}\n",
	})
	c := tasksCaller(g)
	c.send(t, "tools/call", toolCall("greet", arguments{"name": "first"})).result(t)
	before := g.metric(t, "go_goroutines")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for client := range clients {
		for call := range calls {
			wg.Go(func() {
				label := fmt.Sprintf("client %d call %d", client, call)
				id, err := c.begin(ctx, "slow_compute", arguments{"seconds": 2, "label": label})
				if err != nil {
					t.Error(err)
					return
				}
				task, err := c.poll(ctx, id, wire.StatusCompleted)
				if err != nil || !strings.Contains(string(task.Get("result")), label) {
					t.Errorf("asked for %q, got %s (%v)", label, task.Bytes(), err)
				}
			})
		}
	}
	wg.Wait()

	http.DefaultClient.CloseIdleConnections()
	Eventually(t, "goroutines go back to what they were", func() bool {
		return g.metric(t, "go_goroutines") <= before+20 // idle connections to the upstream stay
	})
	if got, limit := g.metric(t, "process_resident_memory_bytes"), float64(512<<20); got > limit {
		t.Errorf("resident memory is %.0f bytes, more than %.0f", got, limit)
	}
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
