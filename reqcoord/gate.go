package reqcoord

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// OverloadError: an upstream has no turn to give. The request was not sent.
type OverloadError struct {
	Upstream string
	Limits   Limits
	Waited   time.Duration // 0: the queue was full at once
}

func (e *OverloadError) Error() string {
	if e.Waited > 0 {
		return fmt.Sprintf("upstream %q is busy: no turn within %s (limit: %d calls at once)", e.Upstream, e.Waited, e.Limits.Concurrency)
	}
	return fmt.Sprintf("upstream %q is busy: %d calls run and %d wait, which are the limits", e.Upstream, e.Limits.Concurrency, e.Limits.Queue)
}

// gate gives turns at one upstream. Those who wait are served principal by
// principal, so that one with many calls does not hold up the others; within a
// principal first come, first served.
type gate struct {
	upstream string
	limits   Limits

	mu      sync.Mutex
	running int
	waiting int
	queues  map[string][]chan struct{} // by principal; never an empty one
	order   []string                   // principals with a queue, next one first
}

func newGate(upstream string, l Limits) *gate {
	return &gate{upstream: upstream, limits: l, queues: map[string][]chan struct{}{}}
}

func (g *gate) acquire(ctx context.Context, principal string) (release func(), err error) {
	ready, err := g.enter(principal)
	if err != nil {
		return nil, err
	}
	if ready == nil {
		return g.release, nil
	}
	if g.limits.QueueTimeout > 0 {
		late := &OverloadError{Upstream: g.upstream, Limits: g.limits, Waited: g.limits.QueueTimeout}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.limits.QueueTimeout, late)
		defer cancel()
	}
	select {
	case <-ready:
		return g.release, nil
	case <-ctx.Done():
		if !g.leave(principal, ready) { // the turn came at the same moment
			g.release()
		}
		return nil, context.Cause(ctx)
	}
}

// enter takes a turn (nil, nil), or a place in the queue.
func (g *gate) enter(principal string) (chan struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limits.Concurrency == 0 || g.running < g.limits.Concurrency {
		g.running++
		return nil, nil
	}
	if g.waiting >= g.limits.Queue {
		return nil, &OverloadError{Upstream: g.upstream, Limits: g.limits}
	}
	g.waiting++
	if len(g.queues[principal]) == 0 {
		g.order = append(g.order, principal)
	}
	ready := make(chan struct{})
	g.queues[principal] = append(g.queues[principal], ready)
	return ready, nil
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
	close(queue[0])
	g.waiting--
	if g.setQueue(principal, queue[1:]); len(queue) > 1 {
		g.order = append(g.order, principal)
	}
}

// leave gives the place in the queue up; false when the turn has come already.
func (g *gate) leave(principal string, ready chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	queue := g.queues[principal]
	for i, r := range queue {
		if r != ready {
			continue
		}
		g.waiting--
		g.setQueue(principal, append(queue[:i:i], queue[i+1:]...))
		if len(queue) == 1 {
			g.dropFromOrder(principal)
		}
		return true
	}
	return false
}

func (g *gate) setQueue(principal string, queue []chan struct{}) {
	if len(queue) == 0 {
		delete(g.queues, principal)
		return
	}
	g.queues[principal] = queue
}

func (g *gate) dropFromOrder(principal string) {
	for i, p := range g.order {
		if p == principal {
			g.order = append(g.order[:i:i], g.order[i+1:]...)
			return
		}
	}
}

func (g *gate) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}
