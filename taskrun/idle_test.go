package taskrun

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"taskgate/internal/bubble"
	"taskgate/upstream"
	"taskgate/wire"
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

// A task that is made and left alone is written, and not read.
func TestNewTaskIsNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		r.call().handle()
		r.call(atOnce).handle()
		bubble.Advance(5 * time.Minute)
		check(t, "created", w.store.count("create"), 2)
		check(t, "read", w.store.count("get"), 0)
	})
}

// A call in the background has one goroutine, that of its upstream.
func TestIdleTasksHaveOneGoroutineEach(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const tasks = 20
		r := w.replica()
		var up []*played
		for n := range tasks {
			r.call(atOnce).handle()
			up = append(up, w.nth(n+1))
		}
		up[0].progress(`{"progress":1}`)
		up[1].asks(`{}`)
		bubble.Advance(time.Minute)
		all := make([]byte, 1<<20)
		stacks := string(all[:runtime.Stack(all, true)])
		check(t, "goroutines of calls", strings.Count(stacks, "taskrun.(*run).dispatch("), tasks)
		check(t, "goroutines of records", strings.Count(stacks, "taskrun.(*run).follow("), 0)
	})
}

// However many bring news at the same moment, nothing is left lying until the
// record is looked at anyway.
func TestNoNewsIsLeftLying(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		note, yes := object(t, `{"progress":1}`), object(t, `{"action":"accept"}`).Bytes()
		for n := range 20 {
			id := r.call().handle()
			up, began := w.nth(n+1), time.Now()
			var busy sync.WaitGroup
			for range 4 {
				busy.Go(func() {
					up.handler.Progress(note)
					if _, err := up.handler.Ask(up.ctx, upstream.Question{Method: wire.MethodElicit, Params: wire.Raw(`{}`)}); err != nil {
						t.Errorf("a question: %v", err)
					}
				})
			}
			for _, q := range r.get(id).PendingInputs() {
				busy.Go(func() { _ = r.Update(t.Context(), ann, id, wire.Object{}.With(q.Name, yes)) })
			}
			busy.Wait()
			check(t, "time that questions and answers took", time.Since(began), 0)
		}
	})
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
