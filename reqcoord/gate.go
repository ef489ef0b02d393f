package reqcoord

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// OverloadError: there is no turn to give. The request was not sent.
type OverloadError struct {
	Share
	Waited time.Duration // 0: the queue was full at once
	// Own: there is room, which is left to others.
	Own bool
	// RetryAfter is about when there may be room, from how long turns have taken.
	RetryAfter time.Duration
}

func (e *OverloadError) Error() string {
	l := e.Limits
	switch {
	case e.Own:
		return fmt.Sprintf("%s has no more room for this caller (limits: %d calls at once and %d that wait, of all callers)", e.Key, l.Concurrency, l.Queue)
	case e.Waited > 0:
		return fmt.Sprintf("%s is busy: no turn within %s (limit: %d calls at once)", e.Key, e.Waited, l.Concurrency)
	}
	return fmt.Sprintf("%s is busy: %d calls run and %d wait, which are the limits", e.Key, l.Concurrency, l.Queue)
}

// gate gives turns. Those who wait are served principal by principal, so that
// one with many calls does not hold up the others; within a principal first
// come, first served. A fair one also keeps room for those who have not come yet.
type gate struct {
	Share
	fair  bool
	users int // under Coordinator.mu

	mu      sync.Mutex
	running int
	runs    map[string]int       // by principal, in a fair gate; never 0
	waiting int                  // of those that need room in the queue
	took    time.Duration        // a turn, on average of late; 0: none has ended
	queues  map[string][]*waiter // by principal; never an empty one
	order   []string             // principals with a queue, next one first
}

// waiter is a place in the queue.
type waiter struct {
	principal string
	promised  bool          // waits without needing room
	turn      chan struct{} // closed when it is the waiter's turn
}

// renewed is a gate that nobody uses yet. It is g, which nobody uses any more, unless
// that is nil: its maps are empty by now, and their room is used again.
func (g *gate) renewed(s Share, fair bool) *gate {
	if g == nil {
		g = new(gate)
	}
	g.Share, g.fair, g.took = s, fair, 0
	return g
}

// leavesRoom tells whether who has so many of something may take one more of
// those that are free. One who wants all gets three quarters, a second one three
// quarters of the rest, and so on: there is always some for who has none.
func (g *gate) leavesRoom(has, free int) bool { return free > 0 && (!g.fair || has < 3*free) }

// mayRun tells whether there is a turn for principal. g.mu is held.
func (g *gate) mayRun(principal string) bool {
	return g.leavesRoom(g.runs[principal], g.Limits.Concurrency-g.running)
}

// run gives principal a turn. g.mu is held.
func (g *gate) run(principal string) {
	g.running++
	if !g.fair {
		return
	}
	if g.runs == nil {
		g.runs = map[string]int{}
	}
	g.runs[principal]++
}

// enter takes a turn, or a place in the queue; nil: it is a turn.
func (g *gate) enter(principal string, promised bool) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.refusal(principal); err != nil && !promised {
		return nil, err
	}
	if g.mayRun(principal) {
		g.run(principal)
		return nil, nil
	}
	w := &waiter{principal: principal, promised: promised, turn: make(chan struct{})}
	g.count(w, 1)
	if g.queues == nil {
		g.queues = map[string][]*waiter{}
	}
	if len(g.queues[principal]) == 0 {
		g.order = append(g.order, principal)
	}
	g.queues[principal] = append(g.queues[principal], w)
	return w, nil
}

// room is what enter would say to who was not promised anything.
func (g *gate) room(principal string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusal(principal)
}

// refusal is nil when there is a turn or a place for principal. g.mu is held.
func (g *gate) refusal(principal string) error {
	free := g.Limits.Queue - g.waiting
	if g.mayRun(principal) || g.leavesRoom(g.places(principal), free) {
		return nil
	}
	own := free > 0 || g.running < g.Limits.Concurrency
	return &OverloadError{Share: g.Share, Own: own, RetryAfter: g.retryAfter()}
}

// places is how many places in the queue principal has. g.mu is held.
func (g *gate) places(principal string) (n int) {
	for _, w := range g.queues[principal] {
		if !w.promised {
			n++
		}
	}
	return n
}

func (g *gate) count(w *waiter, n int) {
	if !w.promised {
		g.waiting += n
	}
}

// retryAfter is when the next turn should end, if turns take as long as of late
// and have begun at even distances. g.mu is held.
func (g *gate) retryAfter() time.Duration {
	next := g.took / time.Duration(max(g.Limits.Concurrency, 1))
	return min(max(next, time.Second), time.Minute)
}

// ended notes how long a turn took.
func (g *gate) ended(took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.took == 0 {
		g.took = took
	}
	g.took += (took - g.took) / 8
}

// wait returns when it is w's turn, or after limit, if there is one.
func (g *gate) wait(ctx context.Context, w *waiter, limit time.Duration) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, &OverloadError{Share: g.Share, Waited: limit, RetryAfter: limit})
		defer cancel()
	}
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		if !g.leave(w) { // the turn came at the same moment
			g.release(w.principal)
		}
		return context.Cause(ctx)
	}
}

// release takes principal's turn back and hands it to the next in line who may
// have one.
func (g *gate) release(principal string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.runs[principal] > 1 {
		g.runs[principal]--
	} else {
		delete(g.runs, principal)
	}
	i := slices.IndexFunc(g.order, g.mayRun)
	if i < 0 {
		return
	}
	next := g.order[i]
	g.order = slices.Delete(g.order, i, i+1)
	queue := g.queues[next]
	g.run(next)
	close(queue[0].turn)
	g.count(queue[0], -1)
	if g.setQueue(next, queue[1:]); len(queue) > 1 {
		g.order = append(g.order, next)
	}
}

// leave gives the place in the queue up; false when the turn has come already.
func (g *gate) leave(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	queue := g.queues[w.principal]
	i := slices.Index(queue, w)
	if i < 0 {
		return false
	}
	g.count(w, -1)
	if g.setQueue(w.principal, append(queue[:i:i], queue[i+1:]...)); len(queue) == 1 {
		g.order = slices.DeleteFunc(g.order, func(p string) bool { return p == w.principal })
	}
	return true
}

func (g *gate) setQueue(principal string, queue []*waiter) {
	if len(queue) == 0 {
		delete(g.queues, principal)
		return
	}
	g.queues[principal] = queue
}

// ahead is about how many turns go to others before w gets one, counting its
// own as one; 0 when it has come.
func (g *gate) ahead(w *waiter) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := slices.Index(g.queues[w.principal], w)
	if own < 0 {
		return 0
	}
	n := 0
	for _, queue := range g.queues {
		n += min(len(queue), own+1)
	}
	return n
}

func (g *gate) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, queue := range g.queues {
		n += len(queue)
	}
	return n
}
