package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"taskgate/bench/load"
	"taskgate/bench/page"
	"taskgate/bench/rig"
)

const megabyte = 1 << 20

// large is a megabyte in the arguments, and in the result.
func large(ctx context.Context, l *lab) (string, error) {
	const conns = 4
	table := page.NewTable("what", "tuned ReverseProxy, requests/s", "taskgate, requests/s", "throughput ≥ 0.9 ×", "allocated for one, MB", "≤ 1.2 × body + 64 KB")
	for _, what := range []struct{ name, tool, arguments string }{
		{"1 MB of arguments", "sink", `{"text":"` + strings.Repeat("much too much   ", megabyte/16) + `"}`},
		{"1 MB of result", "large", `{}`},
	} {
		requests := func(url string) ([]*http.Request, error) { return calls(url, what.tool, what.arguments, 4*conns), nil }
		var cases []load.Case
		for _, p := range l.proxies() {
			if p.name != ours && p.name != theirs {
				continue
			}
			c, err := l.wrk(ctx, p, conns, requests)
			if err != nil {
				return "", err
			}
			cases = append(cases, c)
		}
		s, err := load.Interleave(ctx, cases, l.opts.rounds, l.opts.turn)
		if err != nil {
			return "", err
		}
		gateway, err := l.ourGateway()
		if err != nil {
			return "", err
		}
		heap, err := allocated(ctx, gateway, what.tool, what.arguments)
		if err != nil {
			return "", err
		}
		table.Add(what.name, fmt.Sprintf("%.0f", s.Median(theirs, load.Sample.PerSecond)), fmt.Sprintf("%.0f", s.Median(ours, load.Sample.PerSecond)),
			atLeast(0.9, s.Ratio(ours, theirs, load.Sample.PerSecond)), fmt.Sprintf("%.2f", heap/megabyte), atMost(1.2+64.0/1024, heap/megabyte))
	}
	return table.String(), nil
}

// allocated is how many bytes the gateway allocates for one call, which bounds
// what the call adds to the heap at any time.
func allocated(ctx context.Context, gateway *rig.Process, tool, arguments string) (float64, error) {
	const times = 16
	before, err := metric(ctx, gateway, "go_memstats_alloc_bytes_total")
	if err != nil {
		return 0, err
	}
	for id := range times {
		if _, err := result(ctx, call("http://"+gateway.Addr+"/mcp", tool, arguments, id+1)); err != nil {
			return 0, err
		}
	}
	after, err := metric(ctx, gateway, "go_memstats_alloc_bytes_total")
	return (after - before) / times, err
}
