package reqcoord

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestEachPrincipalIsLimited(t *testing.T) {
	c := New(map[string]Limits{EachPrincipal: {Concurrency: 2}, Everywhere: {Concurrency: 3}}, time.Now)
	admit := func(principal, upstream string) error {
		call, ctx := c.Begin(context.Background(), About{Upstream: upstream, Principal: principal})
		t.Cleanup(call.End)
		return call.Admit(ctx)
	}
	for _, step := range []struct{ principal, upstream, full string }{
		{"hog", "a", ""}, {"hog", "b", ""}, {"hog", "c", "this caller"}, {"modest", "a", ""}, {"modest", "a", "this gateway"},
	} {
		err := admit(step.principal, step.upstream)
		var busy *OverloadError
		if errors.As(err, &busy) != (step.full != "") || (busy != nil && busy.Key != step.full) {
			t.Errorf("%s at %s: %v, want %q to be full", step.principal, step.upstream, err, step.full)
		}
	}
}

// Nobody gets all the turns and all the places: who wants them leaves a quarter to
// others, and the next a quarter of that.
func TestRoomIsLeftForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(map[string]Limits{EachPrincipal: {Concurrency: 1000}, "u": {Concurrency: 16, Queue: 16}}, time.Now)
		runs, waits, refused := map[string]int{}, map[string]int{}, map[string]int{}
		var running []*Call
		try := func(principal string) {
			call, ctx := begin(c, principal)
			go func() {
				waits[principal]++
				err := call.Admit(ctx)
				waits[principal]--
				var full *OverloadError
				switch {
				case err == nil:
					runs[principal]++
					running = append(running, call)
				case errors.As(err, &full) && full.Own:
					refused[principal]++
					call.End()
				default:
					t.Errorf("%s: %v", principal, err)
				}
			}()
			synctest.Wait() // one after the other
		}
		expect := func(when string, got map[string]int, want map[string]int) {
			t.Helper()
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		for range 40 {
			try("hog")
		}
		for range 20 {
			try("pig")
		}
		try("ann")
		expect("running", runs, map[string]int{"hog": 12, "pig": 3, "ann": 1})
		expect("waiting", waits, map[string]int{"hog": 12, "pig": 3, "ann": 0})
		expect("refused", refused, map[string]int{"hog": 16, "pig": 14})
		for len(running) > 0 {
			call := running[0]
			running = running[1:]
			runs[call.Principal]--
			call.End()
			synctest.Wait()
			for p, n := range runs {
				if n > 12 {
					t.Errorf("%s has %d turns", p, n)
				}
			}
		}
		if len(c.gates) != 0 || c.Len() != 0 {
			t.Errorf("after all have run: %d calls, %d gates", c.Len(), len(c.gates))
		}
	})
}
