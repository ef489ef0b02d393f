package taskrun

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"taskgate/internal/bubble"
	"taskgate/taskroute"
)

// drain begins to drain; done is closed when it is over.
func (r *replica) drain(atMost time.Duration) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), atMost)
		defer cancel()
		if err := r.Drain(ctx); err != nil {
			r.t.Errorf("drain: %v", err)
		}
		r.stop()
	}()
	synctest.Wait()
	return done
}

func over(done chan struct{}) bool {
	synctest.Wait()
	return closed(done)
}

func TestDrainWaitsForCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.call().handle()
		waiting := r.call(undeclared)
		done := r.drain(time.Hour)
		bubble.Advance(10 * leaseTime)
		check(t, "over", over(done), false)
		check(t, "status", other.get(id).State.Status, taskroute.Working)
		w.nth(1).returns(hello)
		check(t, "over", over(done), false)
		w.nth(2).returns(hello)
		check(t, "over", over(done), true)
		check(t, "reply", waiting.reply(), hello)
		check(t, "status", other.get(id).State.Status, taskroute.Completed)
		check(t, "lapses", r.counted("lease_lapses_total"), 0)
	})
}

func TestDrainEndsWhatIsLeftHonestly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.call().handle()
		waiting := r.call(undeclared)
		done := r.drain(time.Minute)
		bubble.Advance(time.Minute)
		check(t, "over", over(done), true)
		waiting.fails(errShutdown)
		rec := other.get(id)
		check(t, "status", rec.State.Status, taskroute.Failed)
		check(t, "reason", reasonOf(t, rec), "outcome_unknown")
		check(t, "cause", w.nth(1).cause(), errShutdown)
	})
}

// What cannot be ended in time is others' business at once: the lease is given
// back, not left to lapse.
func TestDrainRetires(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cut := newFaulty(w.store.Backend)
		r, other := w.replicaOn(cut), w.replica()
		id := r.call().handle()
		w.nth(1).deaf = make(chan struct{})
		done := r.drain(time.Minute)
		bubble.Advance(time.Minute + storeTimeout)
		check(t, "over", over(done), true)
		if err := other.rescueOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		check(t, "reason", reasonOf(t, other.get(id)), "outcome_unknown")
		close(w.nth(1).deaf)
	})
}

func TestDrainRetiresAlthoughAWriteHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cut := newFaulty(w.store.Backend)
		r, other := w.replicaOn(cut), w.replica()
		id := r.call().handle()
		r.get(id)
		cut.set(hangs, "replace", "get")
		done := r.drain(time.Minute)
		bubble.Advance(time.Minute + 2*storeTimeout)
		check(t, "over", over(done), true)
		if err := other.rescueOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		check(t, "reason", reasonOf(t, other.get(id)), "outcome_unknown")
	})
}

func TestNothingIsTakenUpDuringADrain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		parked := r.call().handle()
		w.nth(1).returns(asking(`"name":` + elicit("name?")))
		r.call(undeclared)
		done := r.drain(time.Hour)
		r.answer(parked, `{"q1":{}}`)
		bubble.Advance(5 * leaseTime)
		check(t, "calls", w.up.count(), 2)
		check(t, "status", r.get(parked).State.Status, taskroute.Working)
		w.nth(2).returns(hello)
		check(t, "over", over(done), true)
		w.replica()
		bubble.Advance(leaseTime)
		check(t, "calls", w.up.count(), 3)
	})
}

func TestCallIsPromotedDuringADrain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		c := r.call()
		done := r.drain(time.Hour)
		id := c.handle()
		w.nth(1).returns(hello)
		check(t, "over", over(done), true)
		check(t, "status", other.get(id).State.Status, taskroute.Completed)
	})
}

// The replica that the retry waits at goes down; the call runs elsewhere and
// goes on.
func TestDrainUnderARetry(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		state, _ := w.ask(r)
		retry := other.resume(state, `{"q1":{}}`, mrtr, undeclared)
		done := other.drain(time.Minute)
		check(t, "over", over(done), true)
		retry.fails(errShutdown)
		bubble.Advance(time.Minute)
		check(t, "cause", w.nth(1).cause(), nil)
	})
}

func TestNothingIsPromotedAfterADrain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		done := r.drain(time.Minute)
		check(t, "over", over(done), true)
		c := r.call(atOnce) // by a connection that was slow to close
		bubble.Advance(promoteAfter)
		check(t, "open records", w.open(ann), 0)
		w.nth(1).returns(hello)
		check(t, "reply", c.reply(), hello)
	})
}

func TestDrainIsQuiet(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		core, logs := observer.New(zapcore.DebugLevel)
		r := w.replica(func(o *Options) { o.Log = zap.New(core) })
		r.call().handle()
		w.nth(1).returns(hello)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := r.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		bubble.Advance(5 * leaseTime) // its loops still turn
		r.stop()
		check(t, "log lines", logs.Len(), 0)
	})
}

// A whole life, and everything that can go wrong in it: the log may say what
// happened, but not to whose data.
func TestLogsKeepSecrets(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		core, logs := observer.New(zapcore.DebugLevel)
		cut := newFaulty(w.store.Backend)
		r := w.replicaOn(cut, func(o *Options) { o.Log = zap.New(core) })
		other := w.replica()
		secretly := arguments(`{"password":"s3cret"}`)

		lost := r.call(secretly).handle()
		held := r.call(secretly, mrtr)
		w.nth(2).asks(`{"message":"s3cret question?"}`)
		state := held.input().State
		parked := r.call(secretly).handle()
		w.nth(3).returns(asking(`"name":` + elicit("s3cret?")))
		cut.set(down)
		r.call(secretly)
		w.nth(4).asks(`{"message":"s3cret?"}`)
		other.becomes(lost, taskroute.Failed, 2*rescued)
		w.nth(1).returns(`{"content":[{"type":"text","text":"s3cret result"}]}`)
		r.resume(state, `{"q1":{"content":"s3cret answer"}}`, mrtr, secretly)
		cut.set(works)
		bubble.Advance(leaseTime)
		r.answer(parked, `{"q1":{"content":"s3cret answer"}}`)
		w.nth(5).fails(`{"code":1,"message":"s3cret failure"}`)
		r.call(secretly).hangUp()
		done := r.drain(time.Minute)
		bubble.Advance(2 * time.Minute)
		check(t, "over", over(done), true)

		if logs.Len() < 5 {
			t.Errorf("only %d lines: the story was not told", logs.Len())
		}
		for _, line := range logs.All() {
			text, err := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()).EncodeEntry(line.Entry, line.Context)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{"s3cret", lost, parked, state, strings.Split(state, ".")[1], strings.Split(state, ".")[2]} {
				if strings.Contains(text.String(), secret) {
					t.Errorf("%q is in the log: %s", secret, text)
				}
			}
		}
	})
}
