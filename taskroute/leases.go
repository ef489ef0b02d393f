package taskroute

import (
	"sync"
	"time"
)

// Leases tells which holders are alive, for a Backend that lives in one process:
// what was alive in an earlier process is dead at once in this one. The zero
// value is ready for use.
type Leases struct {
	mu     sync.Mutex
	until  map[string]time.Time
	length time.Duration
}

// Heartbeat is Backend.Heartbeat.
func (l *Leases) Heartbeat(holder string, lease time.Duration, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until, known := l.until[holder]; known && !now.Before(until) {
		return ErrConflict
	}
	l.set(holder, now.Add(lease))
	l.length = lease
	return nil
}

// Retire is Backend.Retire.
func (l *Leases) Retire(holder string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(holder, now)
}

func (l *Leases) set(holder string, until time.Time) {
	if l.until == nil {
		l.until = map[string]time.Time{}
	}
	l.until[holder] = until
}

// Orphaned tells whether an open document waits for somebody to take it: its
// holder is not alive, or it is runnable and nobody has taken it for the length
// of a lease since it was written.
func (l *Leases) Orphaned(holder string, runnable bool, written, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if holder == "" {
		return runnable && now.Sub(written) >= l.length
	}
	return !now.Before(l.until[holder])
}
