package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskgate/bench/page"
	"taskgate/policy"
)

// decide is the policy's decision on a call, by the last of 1,000 rules.
func decide(_ context.Context, l *lab) (string, error) {
	table := page.NewTable("1,000 rules", "ns for one decision", "allocations", "goal")
	for _, kind := range []struct {
		name, when string
		most       float64 // µs
	}{
		{"without `when`", "", 2},
		{"the last one with `when`", `, when: 'has(args.rows) && args.rows > 10000 && principal.tenant == "acme"'`, 10},
	} {
		file := filepath.Join(l.dir, "thousand.yaml")
		if err := os.WriteFile(file, []byte(thousandRules(kind.when)), 0o600); err != nil {
			return "", err
		}
		set, err := policy.Load([]string{file}, nil)
		if err != nil {
			return "", err
		}
		q := policy.Query{Upstream: "u", Tool: "export", Tenant: "acme", Arguments: []byte(`{"rows": 20000, "columns": ["a", "b"]}`)}
		b := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				set.Decide(q)
			}
		})
		goal := fmt.Sprintf("≤ %g µs: %s", kind.most, atMost(kind.most, float64(b.NsPerOp())/1000))
		if kind.when == "" {
			goal += ", no allocation: " + atMost(0, float64(b.AllocsPerOp()))
		}
		table.Add(kind.name, fmt.Sprint(b.NsPerOp()), fmt.Sprint(b.AllocsPerOp()), goal)
	}
	return table.String(), nil
}

func thousandRules(when string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 999 {
		fmt.Fprintf(&b, "  - match: {upstream: \"u%d\", tool: \"tool%d_*\"}\n", i%7, i)
	}
	fmt.Fprintf(&b, "  - match: {tool: \"exp*\"%s}\n", when)
	return b.String()
}
