package taskrun

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"taskgate/internal/bubble"
	"taskgate/policy"
	"taskgate/taskroute"
	"taskgate/wire"
)

const hello = `{"content":[{"type":"text","text":"hello"}],"structuredContent":{"n":9007199254740993}}`

func TestFastCallNeverTouchesTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		c := r.call()
		w.nth(1).returns(hello)
		check(t, "reply", c.reply(), hello)
		check(t, "records asked for", w.store.count("create")+w.store.count("get")+w.store.count("count"), 0)
		check(t, "calls in flight", r.coord.Len(), 0)
	})
}

func TestFailureOfAFastCallIsItsAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const failure = `{"code":-32050,"message":"no such report","data":{"n":12345678901234567890}}`
		c := w.replica().call()
		w.nth(1).fails(failure)
		check(t, "reply", c.reply(), failure)
	})
}

func TestSlowCallIsPromotedNotSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		c := r.call()
		bubble.Advance(promoteAfter - time.Millisecond)
		if !c.waits() {
			t.Fatal("promoted too early")
		}
		bubble.Advance(time.Millisecond)
		id := c.handle()
		check(t, "status", r.get(id).State.Status, taskroute.Working)
		w.nth(1).returns(hello)
		rec := r.get(id)
		check(t, "status", rec.State.Status, taskroute.Completed)
		check(t, "result", string(rec.Outcome.Result), hello[:len(hello)-1]+`,"resultType":"complete"}`)
		check(t, "calls at the upstream", w.up.count(), 1)
	})
}

func TestRequiredIsATaskBeforeItIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		w.store.set(late, "create")
		c := r.call(atOnce)
		check(t, "calls before the record is durable", w.up.count(), 0)
		w.store.set(works)
		bubble.Advance(storeTimeout) // the late store answers nobody: the call stays synchronous
		if !c.waits() {
			t.Fatal("a handle was given out for a record that was not durable")
		}
		check(t, "calls", w.up.count(), 1)
		c = r.call(atOnce)
		c.handle()
		check(t, "calls", w.up.count(), 2)
	})
}

func TestRequiredWithoutTheExtension(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.replica().call(atOnce, undeclared)
		c.fails(ErrTaskRequired)
		check(t, "code", WireError(c.err).Code, wire.CodeMissingCapability)
		check(t, "calls at the upstream", w.up.count(), 0)
		check(t, "records", w.store.count("create"), 0)
	})
}

func TestRejectedWithoutTheExtension(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		reject := func(c *Call) { c.Decision.Undeclared = policy.Reject }
		r := w.replica()
		r.call(reject, undeclared).fails(ErrTaskRequired)
		check(t, "calls at the upstream", w.up.count(), 0)
		r.call(reject).handle()
	})
}

func TestForbiddenOrUndeclaredIsHeldForEver(t *testing.T) {
	for name, adjust := range map[string]func(*Call){"forbidden": task(policy.Forbidden), "undeclared": undeclared} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.replica().call(adjust, after(0), timeout(0))
				bubble.Advance(2 * time.Hour)
				if !c.waits() {
					t.Fatal("the client was told something")
				}
				w.nth(1).returns(hello)
				check(t, "reply", c.reply(), hello)
				check(t, "records", w.store.count("create"), 0)
			})
		})
	}
}

func TestHangUpBeforePromotionCancelsTheUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		c := r.call()
		bubble.Advance(promoteAfter / 2)
		c.hangUp()
		check(t, "cause", w.nth(1).cause(), errClientGone)
		c.fails(context.Canceled)
		bubble.Advance(time.Hour)
		check(t, "records", w.store.count("create"), 0)
		check(t, "calls in flight", r.coord.Len(), 0)
	})
}

func TestHangUpAfterPromotionMeansNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		c := r.call()
		id := c.handle()
		c.hangUp()
		bubble.Advance(time.Minute)
		check(t, "cause", w.nth(1).cause(), nil)
		w.nth(1).returns(hello)
		check(t, "status", r.get(id).State.Status, taskroute.Completed)
	})
}

// At the moment of promotion the answer and the hang-up may come as well. In
// whatever order they are seen: an answer is given once, a record is left open
// by nobody, and who has a handle gets the result.
func TestPromotionMeetsAnswerAndHangUp(t *testing.T) {
	const rounds = 300
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		handles, replies, gone := 0, 0, 0
		for i := range rounds {
			c := r.call()
			up := w.nth(i + 1)
			time.AfterFunc(promoteAfter, func() { up.end <- ended{reply: reply(hello)} })
			if i%2 == 1 {
				time.AfterFunc(promoteAfter, c.hangUp)
			}
			out, err := c.outcome()
			switch {
			case out.Task != nil:
				handles++
				r.becomes(out.Task.ID, taskroute.Completed, 0)
			case out.Reply != nil:
				replies++
			case errors.Is(err, context.Canceled):
				gone++
			default:
				t.Fatalf("round %d: %+v, %v", i, out, err)
			}
		}
		t.Logf("%d handles, %d replies, %d hang-ups", handles, replies, gone)
		bubble.Advance(2 * time.Minute) // for what is disowned
		check(t, "told", handles+replies+gone, rounds)
		check(t, "open records", w.open(ann), 0)
	})
}

func TestHangUpWhileTheRecordIsMade(t *testing.T) {
	moods := map[string]mood{"the store hangs": hangs, "and lands later": late, "and lands then": stubborn}
	for name, m := range moods {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.store.set(m, "create")
				c := w.replica().call()
				bubble.Advance(promoteAfter + storeTimeout/2)
				c.hangUp()
				w.store.set(works)
				check(t, "cause", w.nth(1).cause(), errClientGone)
				bubble.Advance(2 * time.Minute)
				check(t, "open records", w.open(ann), 0)
			})
		})
		t.Run(name+", before the call", func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.replica()
				w.store.set(m, "create")
				c := r.call(atOnce)
				c.hangUp()
				w.store.set(works)
				c.fails(context.Canceled)
				check(t, "calls", w.up.count(), 0)
				bubble.Advance(2 * time.Minute)
				check(t, "open records", w.open(ann), 0)
				check(t, "calls in flight", r.coord.Len(), 0)
			})
		})
	}
}

func TestTimeoutEndsTheCall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		held := r.call(undeclared, timeout(time.Minute))
		id := r.call(timeout(time.Minute)).handle()
		bubble.Advance(time.Minute)
		held.fails(errTimeout)
		rec := r.get(id)
		check(t, "status", rec.State.Status, taskroute.Failed)
		check(t, "reason", string(object(t, string(wire.ParseError(rec.Outcome.Error).Data)).Get("reason")), `"timeout"`)
	})
}

// A sign of life is whatever the upstream sends; while people think it need
// not give any.
func TestSilentUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call(idle(time.Minute)).handle()
		up := w.nth(1)
		bubble.Advance(50 * time.Second)
		up.progress(`{"progress":1}`)
		bubble.Advance(50 * time.Second)
		up.handler.Notify("notifications/message", wire.Raw(`{}`))
		bubble.Advance(50 * time.Second)
		up.asks(`{}`)
		bubble.Advance(5 * time.Minute)
		r.answer(id, `{"q1":{}}`)
		bubble.Advance(time.Minute - time.Millisecond)
		check(t, "status", r.get(id).State.Status, taskroute.Working)
		bubble.Advance(time.Millisecond)
		check(t, "reason", reasonOf(t, r.get(id)), "idle_timeout")
		check(t, "cause", up.cause(), errIdle)
	})
}

func TestTooManyOpenTasks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.owners.Open = 1
		r := w.replica()
		first := r.call(atOnce).handle()
		_, err := r.call(atOnce).outcome()
		check(t, "reason", string(object(t, string(WireError(err).Data)).Bytes()), `{"reason":"too_many_open_tasks","retriable":true,"limit":1}`)
		check(t, "calls at the upstream", w.up.count(), 1)
		r.call(atOnce, by(bob)).handle()
		slow := r.call()
		bubble.Advance(time.Minute)
		if !slow.waits() {
			t.Fatal("a call over the limit did not stay synchronous")
		}
		w.nth(1).returns(hello)
		check(t, "status", r.get(first).State.Status, taskroute.Completed)
		slow.handle() // there is room now
	})
}

// A result that is large is kept all the same: it was promised. But who has so much
// stored gets no further task until some of it has expired.
func TestTooMuchIsStored(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.owners.Bytes = 10_000
		r := w.replica()
		id := r.call(atOnce, ttl(time.Hour)).handle()
		w.nth(1).returns(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 10_000) + `"}]}`)
		check(t, "status", r.get(id).State.Status, taskroute.Completed)
		_, err := r.call(atOnce).outcome()
		check(t, "reason", string(object(t, string(WireError(err).Data)).Bytes()), `{"reason":"too_much_stored","retriable":true,"limit":10000}`)
		check(t, "calls at the upstream", w.up.count(), 1)
		r.call(atOnce, by(bob)).handle()
		bubble.Advance(time.Hour)
		if _, err := w.store.Collect(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		r.call(atOnce).handle()
	})
}

func TestUpstreamsOwnTaskIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.replica().call()
		w.nth(1).returns(`{"resultType":"task","taskId":"x","status":"working"}`)
		_, err := c.outcome()
		check(t, "reason", string(object(t, string(WireError(err).Data)).Get("reason")), `"outcome_unknown"`)
	})
}
