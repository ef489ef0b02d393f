package taskrun

import (
	"sync"
	"time"
)

// budget is the time an upstream may take, less the time it waits for people.
type budget struct {
	over func() // called once when the time is up

	mu      sync.Mutex
	left    time.Duration // 0: no limit
	timer   *time.Timer   // nil while stopped
	started time.Time
}

func newBudget(limit time.Duration, over func()) *budget {
	return &budget{left: limit, over: over}
}

func (b *budget) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left > 0 && b.timer == nil {
		b.started, b.timer = time.Now(), time.AfterFunc(b.left, b.over)
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
