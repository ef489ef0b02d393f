package taskrun

import (
	"testing"
	"time"

	"taskgate/internal/bubble"
	"taskgate/policy"
	"taskgate/taskroute"
	"taskgate/wire"
)

func TestOverdueAnswerToALegacyUpstream(t *testing.T) {
	for then, answer := range map[policy.InputExpiry]string{policy.Decline: `{"action":"decline"}`, policy.Cancel: `{"action":"cancel"}`} {
		t.Run(string(then), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.replica()
				id := r.call(answerWithin(time.Minute, then)).handle()
				first := w.nth(1).asks(`{"message":"name?"}`)
				bubble.Advance(30 * time.Second)
				second := w.nth(1).asksFor(wire.MethodRoots, `{}`) // has no such answer
				bubble.Advance(30*time.Second - time.Millisecond)
				check(t, "answer", first.answer(), "")
				bubble.Advance(time.Millisecond)
				check(t, "answer", first.answer(), answer)
				check(t, "status", r.get(id).State.Status, taskroute.InputRequired)
				bubble.Advance(30 * time.Second)
				check(t, "second answer", second.answer(), "error: nobody answered in time")
				check(t, "status", r.get(id).State.Status, taskroute.Working)
				r.answer(id, `{"q1":{"action":"accept"}}`) // too late
				w.nth(1).returns(hello)
				check(t, "status", r.get(id).State.Status, taskroute.Completed)
			})
		})
	}
}

func TestOverdueAnswerFailsTheTask(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call(answerWithin(time.Minute, policy.Fail)).handle()
		w.nth(1).asks(`{}`)
		bubble.Advance(time.Minute)
		check(t, "reason", reasonOf(t, r.get(id)), "input_timeout")
		check(t, "cause", w.nth(1).cause(), errInputTimeout)
	})
}

func TestAnswerInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call(answerWithin(time.Minute, policy.Fail)).handle()
		q := w.nth(1).asks(`{}`)
		bubble.Advance(time.Minute - time.Millisecond)
		r.answer(id, `{"q1":{"n":1}}`)
		check(t, "answer", q.answer(), `{"n":1}`)
		bubble.Advance(time.Hour / 10)
		check(t, "status", r.get(id).State.Status, taskroute.Working)
	})
}

func TestOverdueAnswerToAModernUpstream(t *testing.T) {
	const roots = `"r":{"method":"roots/list"}`
	for name, c := range map[string]struct {
		then     policy.InputExpiry
		requests string
		sent     string // the answers, "" when the task fails
	}{
		"declined":               {policy.Decline, `"a":` + elicit("name?"), `{"a":{"action":"decline"}}`},
		"cancelled":              {policy.Cancel, `"a":` + elicit("name?"), `{"a":{"action":"cancel"}}`},
		"fails":                  {policy.Fail, `"a":` + elicit("name?"), ""},
		"one has no such answer": {policy.Decline, `"a":` + elicit("name?") + "," + roots, ""},
		"that one was in time":   {policy.Decline, roots + `,"a":` + elicit("name?"), `{"r":{"in":"time"},"a":{"action":"decline"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.replica()
				id := r.call(answerWithin(time.Minute, c.then)).handle()
				w.nth(1).returns(asking(c.requests))
				check(t, "status", r.get(id).State.Status, taskroute.InputRequired)
				if name == "that one was in time" {
					r.answer(id, `{"q1":{"in":"time"}}`)
				}
				bubble.Advance(time.Minute)
				if c.sent == "" {
					check(t, "reason", reasonOf(t, r.get(id)), "input_timeout")
					check(t, "calls", w.up.count(), 1)
					return
				}
				check(t, "answers", string(w.nth(2).Params.Get("inputResponses")), c.sent)
			})
		})
	}
}

// The replica that parked the record is gone: whoever asks for it next sees to it.
func TestOverdueAnswerAfterACrash(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cut := newFaulty(w.store.Backend)
		r := w.replicaOn(cut)
		id := r.call(answerWithin(time.Minute, policy.Decline)).handle()
		w.nth(1).returns(asking(`"a":` + elicit("name?")))
		r.get(id)
		cut.set(down)
		bubble.Advance(time.Hour / 10)
		other := w.replica()
		check(t, "calls", w.up.count(), 1)
		check(t, "status", other.get(id).State.Status, taskroute.Working)
		check(t, "calls", w.up.count(), 2)
	})
}
