package reqcoord

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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

// The hint follows from how long turns take, between a second and a minute.
func TestOverloadSaysWhenToTryAgain(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: time.Second, 20 * time.Second: 10 * time.Second, time.Hour: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c := New(map[string]Limits{"u": {Concurrency: 2}}, time.Now)
			admit := func() (*Call, error) {
				call, ctx := begin(c, "p")
				return call, call.Admit(ctx)
			}
			stays, _ := admit()
			first, _ := admit()
			<-time.After(took)
			first.End()
			second, _ := admit()
			refused, err := admit()
			var busy *OverloadError
			if !errors.As(err, &busy) || busy.RetryAfter != want {
				t.Errorf("turns take %v: %+v, want to be told %v", took, err, want)
			}
			for _, call := range []*Call{stays, second, refused} {
				call.End()
			}
			stays, _ = admit() // nothing is known of turns once nobody has, or wants, one
			first, _ = admit()
			refused, err = admit()
			if !errors.As(err, &busy) || busy.RetryAfter != time.Second {
				t.Errorf("a new beginning: %+v, want to be told a second", err)
			}
			for _, call := range []*Call{stays, first, refused} {
				call.End()
			}
		})
	}
}
