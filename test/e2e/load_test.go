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
	upstream := mcptest.NewLegacy(mcptest.Tool{Name: "slow_echo", Run: slowEcho})
	g := Start(t, Options{
		Upstream: upstream.Start(t),
		Policy:   "defaults: {promoteAfter: 300ms, pollInterval: 500ms}\n",
		Config:   "limits: {maxOpenTasksPerPrincipal: 1000}\n",
	})
	wave(t, g) // makes what is kept: connections to the upstream, buffers, caches
	goroutines, memory := g.settled(t), g.metric(t, "process_resident_memory_bytes")
	wave(t, g)
	Eventually(t, "goroutines go back to what they were", func() bool { return g.settled(t) <= goroutines+10 })
	if got, limit := g.metric(t, "process_resident_memory_bytes"), memory*3/2; got > limit {
		t.Errorf("resident memory went from %.0f to %.0f bytes", memory, got)
	}
}

// wave makes 200 slow calls at once from 50 clients.
func wave(t *testing.T, g *Gateway) {
	const clients, calls = 50, 4
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for i := range clients {
		c := newClient(t, g.Endpoint)
		defer c.Close()
		for j := range calls {
			wg.Go(func() { echoes(ctx, t, c, fmt.Sprintf("client %d call %d", i, j)) })
		}
	}
	wg.Wait()
}

func echoes(ctx context.Context, t *testing.T, c client, label string) {
	id, err := c.begin(ctx, "slow_echo", arguments{"label": label}, mcptest.WithID(wire.Raw("1")))
	if err != nil {
		t.Error(err)
		return
	}
	task, err := c.WaitTask(ctx, id, wire.StatusCompleted)
	if err != nil {
		t.Error(err)
		return
	}
	if !strings.Contains(string(task.Get("result")), strconv.Quote(label)) {
		t.Errorf("asked for %q, got %s", label, task.Get("result"))
	}
}

// settled is the number of goroutines once it no longer falls.
func (g *Gateway) settled(t testing.TB) float64 {
	t.Helper()
	n := g.metric(t, "go_goroutines")
	Eventually(t, "the number of goroutines settles", func() bool {
		<-time.After(500 * time.Millisecond)
		before := n
		n = g.metric(t, "go_goroutines")
		return n >= before
	})
	return n
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
