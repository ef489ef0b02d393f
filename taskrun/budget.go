package taskrun

import (
	"sync"
	"time"
)

// budget is the time an upstream may take, less the time it waits for people:
// for the whole call, or between two signs of life.
type budget struct {
	limit time.Duration // 0: none
	end   func(error)   // called once when the time is up, with cause
	cause error

	mu      sync.Mutex
	left    time.Duration
	timer   *time.Timer // nil while stopped
	started time.Time
	closed  bool
}

func newBudget(limit time.Duration, end func(error), cause error) budget {
	return budget{limit: limit, left: limit, end: end, cause: cause}
}

func (b *budget) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit > 0 && b.timer == nil && !b.closed {
		b.started, b.timer = time.Now(), time.AfterFunc(b.left, func() { b.end(b.cause) })
	}
}

func (b *budget) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
		b.timer, b.left = nil, max(b.left-time.Since(b.started), time.Millisecond)
	}
}

// refill gives the whole time again: there was a sign of life.
func (b *budget) refill() {
	if b.limit == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.started = b.limit, time.Now()
	if b.timer != nil {
		b.timer.Reset(b.limit)
	}
}

// close stops it for good: the call has ended.
func (b *budget) close() {
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
