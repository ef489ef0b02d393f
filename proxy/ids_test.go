package proxy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/upstream"
	"taskgate/wire"
)

func TestIDsComeBackVerbatim(t *testing.T) {
	g := newGateway(t)
	c := g.client("ann")
	for _, id := range []string{`1`, `"1"`, `1.5`, `1e3`, `-0`, `12345678901234567890`, `""`, `"\u00e9\n"`, `"` + strings.Repeat("x", 1000) + `"`} {
		r := g.ok(c.CallTool(t.Context(), "tool", `{}`, mcptest.WithID(wire.Raw(id))))
		check(t, "id of a result", string(r.Message.ID), id)
		r = g.ok(c.Task(t.Context(), "nonsense", mcptest.WithID(wire.Raw(id))))
		check(t, "id of an error", string(r.Message.ID), id)
		r = g.ok(c.CallTool(t.Context(), "tool", `{}`, mcptest.WithID(wire.Raw(id)), mcptest.WithHeader(wire.HeaderMethod, "x")))
		check(t, "id of a refusal", string(r.Message.ID), id)
	}
	for _, r := range g.up.got() {
		if r.ID == 0 || strings.Contains(string(r.Params.Bytes()), `"id"`) {
			t.Errorf("the upstream got id %d, params %s", r.ID, r.Params.Bytes())
		}
	}
}

// All of them use id 1 at once, and the upstream answers the last one first.
func TestEachOfManyGetsItsOwnAnswer(t *testing.T) {
	const many = 100
	var mu sync.Mutex
	var waiting []chan struct{}
	g := newGateway(t, func(s *setup) {
		s.up.call = func(_ context.Context, r upstream.Request, _ upstream.Handler) (upstream.Reply, error) {
			turn := make(chan struct{})
			mu.Lock()
			if waiting = append(waiting, turn); len(waiting) == many {
				close(turn)
			}
			mu.Unlock()
			<-turn
			mu.Lock()
			defer mu.Unlock()
			for i, w := range waiting {
				if w == turn && i > 0 {
					close(waiting[i-1])
				}
			}
			return result(`{"content":[],"echo":` + string(r.Params.Bytes()) + `}`), nil
		}
	})
	var wg sync.WaitGroup
	for i := range many {
		c := g.client(fmt.Sprint("caller", i%50))
		wg.Go(func() {
			r, err := c.CallTool(t.Context(), "tool", fmt.Sprintf(`{"mine":%d}`, i), mcptest.WithID(wire.Raw("1")))
			if err != nil {
				t.Error(err)
				return
			}
			check(t, "id", string(r.Message.ID), "1")
			echo, _ := r.Result().Object("echo")
			check(t, "arguments", string(echo.Get("arguments")), fmt.Sprintf(`{"mine":%d}`, i))
		})
	}
	wg.Wait()
	seen := map[uint64]bool{}
	for _, r := range g.up.got() {
		seen[r.ID] = true
	}
	check(t, "ids at the upstream", len(seen), many)
}
