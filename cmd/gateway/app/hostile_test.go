package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"taskgate/internal/mcptest"
)

// BenchmarkHostileNeighbour measures what one caller who makes tasks as fast as
// 10 000 requests a second costs the others: the 99th percentile of another's calls
// beside it and without it, in turns, and how the two compare. The load has the
// processors of the gateway, so there is a control: the same load on a server of
// its own, which refuses everything and does nothing else.
func BenchmarkHostileNeighbour(b *testing.B) {
	u := mcptest.NewModern(askingTools()...)
	u.JSON = true
	g := start(b, withSums(people)+"upstreams: [{name: u, path: /mcp, url: \""+u.Start(b)+"\", era: modern}]\n",
		"rules:\n  - match: {tool: block}\n    task: required\n    promoteAfter: 0s\n", "TASKGATE_STORE="+filepath.Join(b.TempDir(), "tasks.db"))
	c := g.client(b, "/mcp", mcptest.TasksOnly, "X-Api-Key", "ann-1")
	measure := func(d time.Duration) (took []time.Duration) {
		pace := rate.NewLimiter(200, 1)
		for end := time.Now().Add(d); time.Now().Before(end); {
			if err := pace.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			if r := must(b)(c.CallTool(b.Context(), "echo", `{"text":"hi"}`)); r.Text() != "hi" {
				b.Fatalf("somebody else: %d %s", r.Status, r.Body)
			}
			took = append(took, time.Since(began))
		}
		return took
	}
	const window = 5 * time.Second
	measure(time.Second) // warm
	refuser := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	defer refuser.Close()
	var alone, beside, control []time.Duration
	for b.Loop() {
		alone = append(alone, measure(window)...)
		stop := hostile(b, strings.TrimPrefix(refuser.URL, "http://"), "bob")
		control = append(control, measure(window)...)
		stop()
		stop = hostile(b, hostOf(b, g), "bob")
		beside = append(beside, measure(window)...)
		sent, refused := stop()
		b.ReportMetric(float64(sent)/window.Seconds(), "hostile/s")
		b.ReportMetric(float64(refused)/float64(sent), "refused")
	}
	p99 := func(took []time.Duration) float64 {
		slices.Sort(took)
		return took[len(took)*99/100].Seconds() * 1000
	}
	b.ReportMetric(p99(alone), "p99-alone-ms")
	b.ReportMetric(p99(control), "p99-control-ms")
	b.ReportMetric(p99(beside), "p99-beside-ms")
	b.ReportMetric(p99(beside)/p99(alone), "ratio")
	b.ReportMetric(p99(beside)/p99(control), "ratio-to-control")
}

// hostile makes tasks over 64 connections until stop is called.
func hostile(b *testing.B, address, key string) (stop func() (sent, refused int)) {
	b.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"block","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
	request := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\nX-Api-Key: %s\r\n"+
		"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: block\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
	ctx, cancel := context.WithCancel(b.Context())
	pace := rate.NewLimiter(10_000, 100)
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 64 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			defer conn.Close()
			answers := bufio.NewReader(conn)
			for pace.Wait(ctx) == nil {
				if _, err := io.WriteString(conn, request); err != nil {
					b.Error(err)
					return
				}
				resp, err := http.ReadResponse(answers, nil)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				mu.Lock()
				statuses[resp.StatusCode]++
				mu.Unlock()
			}
		})
	}
	return func() (sent, refused int) {
		cancel()
		wg.Wait()
		for status, n := range statuses {
			if sent += n; status == http.StatusTooManyRequests {
				refused += n
			}
		}
		return sent, refused
	}
}
