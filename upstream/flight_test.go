package upstream

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskgate/internal/bubble"
)

func TestFlightIsCancelledWhenTheLastOneLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		f := newFlights[string, int](&running)
		ended := make(chan error, 1)
		work := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return 0, ctx.Err()
		}
		for _, stay := range []time.Duration{time.Second, 2 * time.Second} {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), stay)
				defer cancel()
				if _, err := f.do(ctx, "k", work); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error: %v", err)
				}
			}()
		}
		bubble.Advance(1500 * time.Millisecond) // of the bubble's time
		check(t, "ended while one waits", len(ended), 0)
		bubble.Advance(time.Second)
		check(t, "ended", len(ended), 1)

		v, err := f.do(t.Context(), "k", func(context.Context) (int, error) { return 7, nil })
		check(t, "the next flight", v, 7)
		check(t, "error", err, nil)
		running.Wait()
	})
}

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		err := within(t.Context(), time.Second, "step", wait)
		check(t, "own limit", isKind(err, TimedOut), true)
		check(t, "text", err.Error(), "upstream timed_out: step: no answer within 1s")

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err = within(ctx, time.Second, "step", wait)
		check(t, "caller's limit", errors.Is(err, context.DeadlineExceeded) && !isKind(err, TimedOut), true)

		err = within(t.Context(), time.Second, "step", func(context.Context) error { return broken(0, "x") })
		var e *Error
		check(t, "an error of the step is none of the call", errors.As(err, &e) && e.Kind == Broken && !e.MayHaveRun, true)
		check(t, "nothing", within(t.Context(), time.Second, "step", func(context.Context) error { return nil }), nil)
	})
}

func TestRunEndsIdleSessionsUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := NewHTTP(Options{URL: "http://127.0.0.1:1/", SessionIdle: time.Minute, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		h.sessions.put(newSession(h.endpoint))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Run(ctx) }()
		bubble.Advance(time.Minute)
		check(t, "open after a minute", h.sessions.size(), 1)
		bubble.Advance(time.Minute)
		check(t, "open after two", h.sessions.size(), 0)
		cancel()
		check(t, "error", <-done, nil)
	})
}
