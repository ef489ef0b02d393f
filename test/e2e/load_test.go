package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// Clients count their own requests, often from 1, so ids say nothing about whose
// answer is whose.
func TestAnswersReachTheirAskersThoughAllUseOneID(t *testing.T) {
	var e echo
	g := Start(t, Options{
		Upstream: mcptest.NewLegacy(mcptest.Tool{Name: "slow_echo", Run: e.run}).Start(t),
		Policy:   "defaults: {promoteAfter: 300ms, pollInterval: 500ms}\n",
		Config:   "limits: {maxOpenTasksPerPrincipal: 1000}\n",
	})
	e.wave(t, g) // makes what is kept: connections to the upstream, buffers, caches
	goroutines, memory := g.settled(t), g.metric(t, "process_resident_memory_bytes")
	e.wave(t, g)
	Eventually(t, "goroutines go back to what they were", func() bool { return g.settled(t) <= goroutines+10 })
	if got, limit := g.metric(t, "process_resident_memory_bytes"), memory*3/2; got > limit {
		t.Errorf("resident memory went from %.0f to %.0f bytes", memory, got)
	}
}

// echo is a tool that returns its label, but not before the wave it belongs to
// may end.
type echo struct{ release atomic.Pointer[chan struct{}] }

func (e *echo) run(c *mcptest.Call) (wire.Raw, *wire.Error) {
	label, _ := wire.String(c.Arguments.Get("label"))
	select {
	case <-*e.release.Load():
	case <-c.Cancelled():
	}
	return mcptest.Text(label), nil
}

// wave makes 200 calls from 50 clients, so that all of them run at once.
func (e *echo) wave(t *testing.T, g *Gateway) {
	const clients, calls = 50, 4
	release := make(chan struct{})
	e.release.Store(&release)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var started, ended sync.WaitGroup
	started.Add(clients * calls)
	for i := range clients {
		c := newClient(t, g.Endpoint)
		defer c.Close()
		for j := range calls {
			ended.Go(func() {
				label := fmt.Sprintf("client %d call %d", i, j)
				id, err := c.begin(ctx, "slow_echo", arguments{"label": label}, mcptest.WithID(wire.Raw("1")))
				started.Done()
				if err != nil {
					t.Error(err)
					return
				}
				task, err := c.WaitTask(ctx, id, wire.StatusCompleted)
				if got := string(task.Get("result")); err != nil || !strings.Contains(got, strconv.Quote(label)) {
					t.Errorf("asked for %q, got %s (%v)", label, got, err)
				}
			})
		}
	}
	started.Wait()
	close(release)
	ended.Wait()
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
