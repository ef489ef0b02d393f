package taskrun

import (
	"testing"
	"time"

	"taskgate/internal/bubble"
	"taskgate/policy"
	"taskgate/taskroute"
)

const window = 10 * time.Minute

func deduped(c *Call) {
	c.Decision.Dedupe = policy.Dedupe{By: []policy.DedupeKey{policy.ByPrincipal, policy.ByTool, policy.ByArguments}, Within: window}
}

const helloComplete = `,"resultType":"complete"}`

func TestSameCallsRunOnceAcrossReplicas(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.replica(), w.replica()
		clients := []*client{
			a.call(deduped, undeclared), a.call(deduped, undeclared, arguments(` { "n":9007199254740993 } `)), b.call(deduped, undeclared),
		}
		w.nth(1).returns(hello)
		late := b.call(deduped, undeclared) // its first answer got lost
		for _, c := range append(clients, late) {
			check(t, "reply", c.reply(), hello[:len(hello)-1]+helloComplete)
		}
		check(t, "calls at the upstream", w.up.count(), 1)
		check(t, "joined", a.counted("calls_joined_total")+b.counted("calls_joined_total"), 3)
	})
}

func TestSameCallsAtOnceRunOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.replica(), w.replica()
		w.store.set(stubborn, "create") // all of them find nothing, and make a record
		clients := []*client{a.call(deduped, undeclared), b.call(deduped, undeclared), a.call(deduped, undeclared)}
		w.store.set(works)
		w.nth(1).returns(hello)
		for _, c := range clients {
			check(t, "reply", c.reply(), hello[:len(hello)-1]+helloComplete)
		}
		check(t, "calls at the upstream", w.up.count(), 1)
		bubble.Advance(2 * time.Minute)
		check(t, "open records", w.open(ann), 0)
	})
}

func TestOtherCallsAreNotJoined(t *testing.T) {
	for name, adjust := range map[string]func(*Call){
		"another's": by(bob), "other arguments": arguments(`{"n":9007199254740992}`), "other tool": func(c *Call) { c.Tool = "delete" },
		"an answer to the upstream": func(c *Call) {
			c.Params = object(t, `{"name":"report","arguments":{"n":9007199254740993},"requestState":"x"}`)
		},
		"policy does not say so": func(c *Call) { c.Decision.Dedupe.Within = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.replica()
				first := r.call(deduped, undeclared)
				other := r.call(deduped, undeclared, adjust)
				check(t, "calls at the upstream", w.up.count(), 2)
				for i, c := range []*client{first, other} {
					w.nth(i + 1).returns(hello)
					c.reply()
				}
			})
		})
	}
}

func TestTheWindowEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		first := r.call(deduped, undeclared)
		w.nth(1).returns(hello)
		first.reply()
		bubble.Advance(window)
		again := r.call(deduped, undeclared)
		w.nth(2).returns(hello)
		again.reply()
	})
}

func TestWhatFailedOrWasCancelledIsDoneAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		first := r.call(deduped)
		w.nth(1).fails(`{"code":-32000,"message":"no"}`)
		check(t, "reply", first.reply(), `{"code":-32000,"message":"no"}`)
		second := r.call(deduped, atOnce)
		r.cancelTask(second.handle())
		third := r.call(deduped)
		w.nth(3).returns(hello)
		third.reply()
	})
}

func TestPromotionIsForAll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		first := r.call(deduped)
		waiting := r.call(deduped, undeclared)
		id := first.handle()
		check(t, "the other's task", r.call(deduped).handle(), id)
		if !waiting.waits() {
			t.Error("who did not declare tasks was told something")
		}
		w.nth(1).returns(hello)
		waiting.reply()
		check(t, "status", r.get(id).State.Status, taskroute.Completed)
		check(t, "calls at the upstream", w.up.count(), 1)
	})
}

func TestHangUpLeavesASharedCall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		r.call(deduped, undeclared).hangUp()
		resent := r.call(deduped, undeclared)
		check(t, "cause", w.nth(1).cause(), nil)
		w.nth(1).returns(hello)
		resent.reply()
		check(t, "calls at the upstream", w.up.count(), 1)
	})
}

func TestQuestionOfASharedCall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		first, second := r.call(deduped, undeclared), r.call(deduped, undeclared)
		q := w.nth(1).asks(`{"message":"name?"}`)
		check(t, "state", second.input().State, first.input().State)
		retry := r.resume(first.input().State, `{"q1":{"action":"accept"}}`, deduped, undeclared)
		check(t, "answer", q.answer(), `{"action":"accept"}`)
		r.resume(second.input().State, `{"q1":{"action":"decline"}}`, deduped, undeclared).fails(ErrBadState)
		w.nth(1).returns(hello)
		retry.reply()
	})
}

func TestQuestionOfASharedCallGoesIntoTheTask(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		first, second := r.call(deduped), r.call(deduped)
		q := w.nth(1).asks(`{"message":"name?"}`)
		check(t, "task", second.handle(), first.handle())
		r.answer(first.handle(), `{"q1":{"action":"accept"}}`)
		check(t, "answer", q.answer(), `{"action":"accept"}`)
		w.nth(1).returns(hello)
	})
}

func TestWithoutAStoreNothingIsJoined(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		w.store.set(down)
		first, second := r.call(deduped, undeclared), r.call(deduped, undeclared)
		for i, c := range []*client{first, second} {
			w.nth(i + 1).returns(hello)
			check(t, "reply", c.reply(), hello)
		}
		check(t, "counted", r.counted("calls_not_deduped_total"), 2)
	})
}

// A replica that dies leaves no reservation behind that keeps others waiting.
func TestSharedCallOfALostReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := newFaulty(w.store)
		dying, other := w.replicaOn(a), w.replica()
		dying.call(deduped, undeclared).hangUp()
		a.set(down) // it is cut off for good
		joined := other.call(deduped, undeclared)
		if !joined.waits() {
			t.Fatal("told before the replica was known to be dead")
		}
		bubble.Advance(3 * leaseTime)
		if out, err := joined.outcome(); err != nil || out.Reply == nil || out.Reply.Error == nil {
			t.Errorf("got %+v, %v; want an error that says that the outcome is unknown", out, err)
		}
		again := other.call(deduped, undeclared)
		w.nth(2).returns(hello)
		again.reply()
	})
}
