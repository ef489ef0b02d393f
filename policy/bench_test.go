package policy

import (
	"fmt"
	"strings"
	"testing"
)

// thousandRules has every kind of pattern, and matches nothing before its end.
func thousandRules() string {
	var b strings.Builder
	b.WriteString("rules:\n")
	patterns := []string{"tool_%d", "tool_%d_*", "*_tool_%d", "{get,put}_%d", "t*_%d_?"}
	for i := range 1000 {
		fmt.Fprintf(&b, "- match: {upstream: \"u%d\", tool: %q}\n", i%7, fmt.Sprintf(patterns[i%len(patterns)], i))
	}
	return b.String()
}

func BenchmarkDecide(b *testing.B) {
	s := load(b, thousandRules())
	q := Query{Upstream: "u3", Tool: "nothing_of_these"}
	b.ReportAllocs()
	for b.Loop() {
		s.Decide(q)
	}
}

// BenchmarkDecideUnseen is the first call of a tool.
func BenchmarkDecideUnseen(b *testing.B) {
	s := load(b, thousandRules())
	for b.Loop() {
		s.search("u3", "nothing_of_these")
	}
}

func BenchmarkDecideWhen(b *testing.B) {
	s := load(b, "rules:\n- match: {when: 'has(args.rows) && args.rows > 10000 && principal.tenant == \"acme\"'}\n")
	q := Query{Upstream: "u", Tool: "t", Tenant: "acme", Arguments: []byte(`{"rows": 9000, "columns": ["a", "b"]}`)}
	b.ReportAllocs()
	for b.Loop() {
		s.Decide(q)
	}
}

// BenchmarkHostileName has the worst pattern that is allowed meet the worst name.
func BenchmarkHostileName(b *testing.B) {
	s := load(b, `{rules: [{match: {tool: "*a*a*a*a*a*a?b*"}}]}`)
	name := strings.Repeat("a", 10_000)
	for b.Loop() {
		s.search("u", name)
	}
}

// BenchmarkCostLimit is the dearest condition that is allowed.
func BenchmarkCostLimit(b *testing.B) {
	s := load(b, `{rules: [{match: {when: 'args.l.all(x, args.l.all(y, x + y >= 0))'}}]}`)
	q := Query{Upstream: "u", Tool: "t", Arguments: []byte(`{"l": [` + strings.Repeat("1,", 10000) + `1]}`)}
	for b.Loop() {
		s.Decide(q)
	}
}
