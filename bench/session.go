package main

import (
	"context"
	"fmt"

	"taskgate/bench/load"
	"taskgate/bench/page"
)

// session is a client of 2026-07-28 in front of a server of 2025-11-25 that has
// sessions and answers with SSE.
func session(ctx context.Context, l *lab) (string, error) {
	const older = "server of 2025-11-25, SSE"
	table := page.NewTable("connections", "server of 2026-07-28, requests/s", older+", requests/s", "≥ 0.8 ×")
	for _, conns := range []int{1, 16, 64} {
		var cases []load.Case
		for _, p := range []proxy{{name: passed, path: "/mcp"}, {name: older, path: "/legacy"}} {
			p.start = l.ourGateway
			c, err := l.wrk(ctx, p, conns, p.echoes(ctx))
			if err != nil {
				return "", err
			}
			cases = append(cases, c)
		}
		s, err := load.Interleave(ctx, cases, l.opts.rounds, l.opts.turn)
		if err != nil {
			return "", err
		}
		table.Add(fmt.Sprint(conns), fmt.Sprintf("%.0f", s.Median(passed, load.Sample.PerSecond)),
			fmt.Sprintf("%.0f", s.Median(older, load.Sample.PerSecond)), atLeast(0.8, s.Ratio(older, passed, load.Sample.PerSecond)))
	}
	return table.String(), nil
}
