package taskrun

import (
	"testing"
	"time"

	"taskgate/internal/bubble"
	"taskgate/taskroute"
)

func TestCancelWhileWorking(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		r.cancelTask(id)
		check(t, "cause", w.nth(1).cause(), errCancelled)
		before := r.get(id)
		check(t, "status", before.State.Status, taskroute.Cancelled)
		r.cancelTask(id)
		r.answer(id, `{"q1":{}}`)
		check(t, "revision", r.get(id).Revision, before.Revision)
	})
}

func TestCancelWhileAQuestionIsOut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		q := w.nth(1).asks(`{}`)
		r.cancelTask(id)
		check(t, "cause", w.nth(1).cause(), errCancelled)
		check(t, "answer", q.answer(), "error: the call that asked has ended")
		check(t, "status", r.get(id).State.Status, taskroute.Cancelled)
	})
}

func TestCancelWhileParked(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.nth(1).returns(asking(`"name":` + elicit("name?")))
		r.cancelTask(id)
		check(t, "status", r.get(id).State.Status, taskroute.Cancelled)
		r.answer(id, `{"q1":{}}`)
		bubble.Advance(time.Minute)
		check(t, "calls", w.up.count(), 1)
	})
}

// The wish came first: what the upstream asks then is nobody's business.
func TestQuestionAfterTheCancel(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		other := w.replica()
		id := r.call().handle()
		r.get(id)
		other.cancelTask(id) // not seen here yet
		w.nth(1).returns(asking(`"name":` + elicit("name?")))
		check(t, "status", r.get(id).State.Status, taskroute.Cancelled)
	})
}

func TestUpstreamThatNeverAnswersACancel(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		up := w.nth(1)
		up.deaf = make(chan struct{})
		r.cancelTask(id)
		bubble.Advance(cancelGrace - time.Millisecond)
		check(t, "status", r.get(id).State.Status, taskroute.Working)
		bubble.Advance(time.Millisecond)
		check(t, "status", r.get(id).State.Status, taskroute.Cancelled)
		check(t, "runs here", isEmpty(&r.own), true)
		close(up.deaf)
	})
}

func TestResultAfterTheCancelChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		up := w.nth(1)
		up.deaf = make(chan struct{})
		r.cancelTask(id)
		bubble.Advance(cancelGrace)
		before := r.get(id)
		close(up.deaf)
		bubble.Advance(time.Minute)
		after := r.get(id)
		check(t, "status", after.State.Status, taskroute.Cancelled)
		check(t, "revision", after.Revision, before.Revision)
	})
}

func TestCancelMeetsTheResult(t *testing.T) {
	const rounds = 1000
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		ends := map[taskroute.Status]int{}
		for i := range rounds {
			id := r.call(atOnce).handle()
			up := w.nth(i + 1)
			go func() { up.end <- ended{reply: reply(hello)} }()
			r.cancelTask(id)
			rec := r.get(id)
			ends[rec.State.Status]++
			bubble.Advance(cancelGrace)
			check(t, "revision", r.get(id).Revision, rec.Revision)
		}
		t.Log(ends)
		check(t, "ends", ends[taskroute.Completed]+ends[taskroute.Cancelled], rounds)
		check(t, "open records", w.open(ann), 0)
		check(t, "ends counted", r.counted("records_ended_total"), rounds)
	})
}

// atAnother runs a test with hints, where what one replica is told reaches the
// other at once, and without, where that takes a heartbeat at most: both are what
// arrived waits for.
func atAnother(t *testing.T, test func(t *testing.T, w *world, arrived func())) {
	t.Helper()
	for name, hints := range map[string]bool{"with hints": true, "without hints": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.store.talks = hints
				test(t, w, func() {
					if !hints {
						bubble.Advance(leaseTime / 3)
					}
				})
			})
		})
	}
}

func TestCancelAtAnotherReplica(t *testing.T) {
	atAnother(t, func(t *testing.T, w *world, arrived func()) {
		r, other := w.replica(), w.replica()
		id := r.call().handle()
		r.get(id) // and everything is quiet again
		other.cancelTask(id)
		arrived()
		check(t, "cause", w.nth(1).cause(), errCancelled)
		check(t, "status", other.get(id).State.Status, taskroute.Cancelled)
	})
}

func TestAnswerAtAnotherReplica(t *testing.T) {
	atAnother(t, func(t *testing.T, w *world, arrived func()) {
		r, other := w.replica(), w.replica()
		id := r.call().handle()
		q := w.nth(1).asks(`{}`)
		other.answer(id, `{"q1":{"n":1}}`)
		check(t, "status", other.get(id).State.Status, taskroute.Working)
		arrived()
		check(t, "answer", q.answer(), `{"n":1}`)
	})
}

func TestExpiryCancelsTheUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call(ttl(time.Minute)).handle()
		bubble.Advance(time.Minute)
		check(t, "cause", w.nth(1).cause(), errExpired)
		_, err := r.Get(t.Context(), ann, id)
		check(t, "error", err, error(taskroute.ErrExpired))
		_, err = r.Get(t.Context(), bob, id)
		check(t, "somebody else's error", err, error(taskroute.ErrNotFound))
		check(t, "update", r.Update(t.Context(), ann, id, object(t, `{}`)), error(taskroute.ErrExpired))
		check(t, "cancel", r.Cancel(t.Context(), ann, id), error(taskroute.ErrExpired))
		bubble.Advance(time.Minute)
		check(t, "open records", w.open(ann), 0)
		_, err = r.Get(t.Context(), ann, id)
		check(t, "error", err, error(taskroute.ErrExpired))
		check(t, "runs here", isEmpty(&r.own), true)
	})
}

func TestUnlimitedTaskDoesNotExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call(ttl(0), timeout(0)).handle()
		bubble.Advance(2 * time.Hour)
		check(t, "status", r.get(id).State.Status, taskroute.Working)
		w.nth(1).returns(hello)
		check(t, "status", r.get(id).State.Status, taskroute.Completed)
	})
}
