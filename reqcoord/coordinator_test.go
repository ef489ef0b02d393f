package reqcoord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskgate/internal/bubble"
)

func begin(c *Coordinator, principal string) (*Call, context.Context) {
	return c.Begin(context.Background(), About{Upstream: "u", Principal: principal})
}

func TestIDsAreUnique(t *testing.T) {
	c := New(nil, time.Now)
	seen := map[uint64]bool{}
	for range 100 {
		call, _ := begin(c, "p")
		for _, id := range []uint64{call.ID, call.NextID()} {
			if seen[id] {
				t.Fatalf("id %d was given out twice", id)
			}
			seen[id] = true
		}
	}
	if got := len(c.Snapshot()); got != 100 || c.Len() != 100 {
		t.Errorf("snapshot has %d calls, table %d, want 100", got, c.Len())
	}
}

func TestCallOutlivesItsRequest(t *testing.T) {
	c := New(nil, time.Now)
	request, hangUp := context.WithCancel(context.Background())
	call, ctx := c.Begin(request, About{Upstream: "u"})
	hangUp()
	if ctx.Err() != nil {
		t.Fatal("the call ended with the request that made it")
	}
	why := errors.New("owner asked")
	call.Cancel(why)
	if context.Cause(ctx) != why {
		t.Errorf("cause is %v, want %v", context.Cause(ctx), why)
	}
	call.End()
	if c.Len() != 0 {
		t.Error("an ended call is still in the table")
	}
}

func TestTurnsGoRoundThePrincipals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(map[string]Limits{"u": {Concurrency: 1, Queue: 10}}, time.Now)
		first, ctx := begin(c, "first")
		if err := first.Admit(ctx); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		for _, p := range []string{"hog", "hog", "hog", "modest"} {
			call, ctx := begin(c, p)
			go func() {
				if err := call.Admit(ctx); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, p)
				mu.Unlock()
				call.End()
			}()
			synctest.Wait() // one after the other into the queue
		}
		if got := c.Waiting(); got != 4 {
			t.Errorf("%d wait, want 4", got)
		}
		first.End()
		synctest.Wait()
		if got, want := fmt.Sprint(order), "[hog modest hog hog]"; got != want {
			t.Errorf("turns went to %s, want %s", got, want)
		}
	})
}

func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(map[string]Limits{"u": {Concurrency: 1, Queue: 1, QueueTimeout: time.Minute}}, time.Now)
		first, ctx := begin(c, "a")
		if err := first.Admit(ctx); err != nil {
			t.Fatal(err)
		}
		waiting, wctx := begin(c, "b")
		waited := make(chan error)
		go func() { waited <- waiting.Admit(wctx) }()
		synctest.Wait()

		third, ctx := begin(c, "c")
		var full *OverloadError
		if err := third.Admit(ctx); !errors.As(err, &full) || full.Waited != 0 {
			t.Errorf("with the queue full: %v", err)
		}
		third.End()

		var late *OverloadError
		if err := <-waited; !errors.As(err, &late) || late.Waited != time.Minute {
			t.Errorf("after the queue timeout: %v", err)
		}
		waiting.End()
		first.End()
		next, ctx := begin(c, "d")
		if err := next.Admit(ctx); err != nil {
			t.Errorf("the turn got lost: %v", err)
		}
		next.End()
	})
}

// A promised call waits beyond the queue and its time, and takes nobody's place.
func TestPromisedCallsWaitForAsLongAsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(map[string]Limits{"u": {Concurrency: 1, Queue: 1, QueueTimeout: time.Minute}}, time.Now)
		first, ctx := begin(c, "a")
		if err := first.Admit(ctx); err != nil {
			t.Fatal(err)
		}
		var left sync.WaitGroup
		for range 10 {
			call, ctx := begin(c, "a")
			left.Go(func() {
				defer call.End()
				if err := call.AdmitPromised(ctx); err != nil {
					t.Errorf("a promised call: %v", err)
				}
			})
		}
		synctest.Wait()
		bubble.Advance(2 * time.Minute)
		if got := c.Waiting(); got != 10 {
			t.Errorf("%d wait, want 10", got)
		}
		other, ctx := begin(c, "b")
		left.Go(func() {
			defer other.End()
			if err := other.Admit(ctx); err != nil {
				t.Errorf("the queue has room, and yet: %v", err)
			}
		})
		synctest.Wait()
		more, ctx := begin(c, "c")
		if err := more.Admit(ctx); !errors.As(err, new(*OverloadError)) {
			t.Errorf("with the queue full: %v", err)
		}
		more.End()
		first.End()
		left.Wait()
		if len(c.gates) != 0 || c.Len() != 0 {
			t.Errorf("after all have ended: %d calls, %d gates", c.Len(), len(c.gates))
		}
	})
}

func TestGivingUpInTheQueueLosesNoTurn(t *testing.T) {
	c := New(map[string]Limits{"u": {Concurrency: 2, Queue: 1000}}, time.Now)
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			call, ctx := begin(c, fmt.Sprint("p", i%7))
			defer call.End()
			if i%3 == 0 {
				go call.Cancel(context.Canceled)
			}
			if err := call.Admit(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(c.gates) != 0 || c.Len() != 0 {
		t.Errorf("after all have ended: %d calls, %d gates", c.Len(), len(c.gates))
	}
	again, ctx := begin(c, "again")
	defer again.End()
	if err := again.Admit(ctx); err != nil {
		t.Errorf("the gate is blocked: %v", err)
	}
}

func TestSharesComeBeforeTheUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(map[string]Limits{"u": {Concurrency: 2, Queue: 10}}, time.Now)
		rule := Share{Key: "rule", Limits: Limits{Concurrency: 1, Queue: 10}}
		first, ctx := begin(c, "p")
		if err := first.Admit(ctx, rule); err != nil {
			t.Fatal(err)
		}
		second, secondCtx := begin(c, "p")
		admitted := make(chan error, 1)
		go func() { admitted <- second.Admit(secondCtx, rule) }()
		synctest.Wait()
		if n, waits := second.Ahead(); n != 1 || !waits {
			t.Errorf("Ahead is %d, %v, want 1, true", n, waits)
		}
		other, ctx := begin(c, "p")
		if err := other.Admit(ctx); err != nil {
			t.Errorf("who waits for a share keeps the upstream busy: %v", err)
		}
		first.End()
		if err := <-admitted; err != nil {
			t.Fatal(err)
		}
		if _, waits := second.Ahead(); waits {
			t.Error("an admitted call still waits")
		}
		second.End()
		other.End()
		if len(c.gates) != 0 {
			t.Errorf("%d gates are left", len(c.gates))
		}
	})
}

func TestWaitAndCancelAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(nil, time.Now)
		call, ctx := begin(c, "p")
		ctxWait, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := c.Wait(ctxWait); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait with a call in flight: %v", err)
		}
		stop := errors.New("shutting down")
		go func() {
			<-ctx.Done()
			call.End()
		}()
		c.CancelAll(stop)
		if err := c.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		if context.Cause(ctx) != stop {
			t.Errorf("cause is %v", context.Cause(ctx))
		}
	})
}
