package reqcoord

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAllUpstreamsTogetherAreLimited(t *testing.T) {
	c := New(map[string]Limits{Everywhere: {Concurrency: 2}}, time.Now)
	var calls []*Call
	for _, upstream := range []string{"a", "b"} {
		call, ctx := c.Begin(context.Background(), About{Upstream: upstream})
		if err := call.Admit(ctx); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
	}
	third, ctx := c.Begin(context.Background(), About{Upstream: "c"})
	var full *OverloadError
	if err := third.Admit(ctx); !errors.As(err, &full) || full.Key != "this gateway" {
		t.Errorf("beyond the limit: %v", err)
	}
	third.End()
	for _, call := range calls {
		call.End()
	}
	fourth, ctx := c.Begin(context.Background(), About{Upstream: "c"})
	defer fourth.End()
	if err := fourth.Admit(ctx); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
