package reqcoord

import (
	"context"
	"testing"
	"time"
)

// BenchmarkTurn is a call that gets its turn at once.
func BenchmarkTurn(b *testing.B) {
	c := New(map[string]Limits{"u": {Concurrency: 16}, Everywhere: {Concurrency: 100}, EachPrincipal: {Concurrency: 50}}, time.Now)
	b.ReportAllocs()
	for b.Loop() {
		call, ctx := c.Begin(context.Background(), About{Upstream: "u", Principal: "ann"})
		if err := call.Admit(ctx); err != nil {
			b.Fatal(err)
		}
		call.End()
	}
}
