package taskrun

import (
	"testing"
	"time"

	"taskgate/internal/bubble"
)

// What costs the store something is that a task changes, not that it is there.
func TestIdleTasksCostTheStoreNothing(t *testing.T) {
	cost := func(tasks int) (n int) {
		inBubble(t, func(t *testing.T, w *world) {
			r := w.replica()
			for range tasks {
				r.call(atOnce).handle()
			}
			bubble.Advance(recheck)
			before := w.asked()
			bubble.Advance(5 * time.Minute)
			n = w.asked() - before
		})
		return n
	}
	few, many := cost(1), cost(200)
	if few == 0 {
		t.Error("not even heartbeats were counted")
	}
	check(t, "operations of the store with many idle tasks", many, few)
}

// A store that loses what it was to tell delays an answer, no more.
func TestUntoldChangeIsFoundInTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.store.silent = true
		r, other := w.replica(func(o *Options) { o.Reread = time.Minute }), w.replica()
		id := r.call().handle()
		q := w.nth(1).asks(`{}`)
		other.answer(id, `{"q1":{"n":1}}`)
		bubble.Advance(time.Minute)
		check(t, "answer", q.answer(), `{"n":1}`)
	})
}

// asked is how often the store was asked for anything.
func (w *world) asked() (n int) {
	for _, op := range operations {
		n += w.store.count(op)
	}
	return n
}
