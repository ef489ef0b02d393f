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
	// RetryAfter is about when there may be room, from how long turns have taken.
	RetryAfter time.Duration
}

func (e *OverloadError) Error() string {
	l := e.Limits
	if e.Waited > 0 {
		return fmt.Sprintf("%s is busy: no turn within %s (limit: %d calls at once)", e.Key, e.Waited, l.Concurrency)
	}
	return fmt.Sprintf("%s is busy: %d calls run and %d wait, which are the limits", e.Key, l.Concurrency, l.Queue)
}

// gate gives turns. Those who wait are served principal by principal, so that
// one with many calls does not hold up the others; within a principal first
// come, first served.
type gate struct {
	Share
	users int // under Coordinator.mu

	mu      sync.Mutex
	running int
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

func newGate(s Share) *gate { return &gate{Share: s, queues: map[string][]*waiter{}} }

// enter takes a turn, or a place in the queue.
func (g *gate) enter(principal string, promised bool) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := &waiter{principal: principal, promised: promised, turn: make(chan struct{})}
	if g.running < g.Limits.Concurrency {
		g.running++
		close(w.turn)
		return w, nil
	}
	if !promised && g.waiting >= g.Limits.Queue {
		return nil, &OverloadError{Share: g.Share, RetryAfter: g.retryAfter()}
	}
	g.count(w, 1)
	if len(g.queues[principal]) == 0 {
		g.order = append(g.order, principal)
	}
	g.queues[principal] = append(g.queues[principal], w)
	return w, nil
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
			g.release()
		}
		return context.Cause(ctx)
	}
}

// release hands the turn to the next in line, or frees it.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.order) == 0 {
		g.running--
		return
	}
	principal := g.order[0]
	g.order = g.order[1:]
	queue := g.queues[principal]
	close(queue[0].turn)
	g.count(queue[0], -1)
	if g.setQueue(principal, queue[1:]); len(queue) > 1 {
		g.order = append(g.order, principal)
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
