package taskroute

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Leases tells which holders are alive, for a Backend that lives in one process:
// what was alive in an earlier process is dead at once in this one. The zero
// value is ready for use.
type Leases struct {
	mu     sync.Mutex
	until  map[string]time.Time
	told   map[string]map[string]struct{} // ids by the holder that is to hear of them
	length time.Duration
}

// Heartbeat is Backend.Heartbeat.
func (l *Leases) Heartbeat(holder string, lease time.Duration, now time.Time) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until, known := l.until[holder]; known && !now.Before(until) {
		delete(l.told, holder)
		return nil, ErrConflict
	}
	l.set(holder, now.Add(lease))
	l.length = lease
	changed := slices.Collect(maps.Keys(l.told[holder]))
	delete(l.told, holder)
	return changed, nil
}

// Tell has the holder's next heartbeat return id; see Doc.Tell.
func (l *Leases) Tell(holder, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.until[holder]; !known {
		return
	}
	if l.told == nil {
		l.told = map[string]map[string]struct{}{}
	}
	if l.told[holder] == nil {
		l.told[holder] = map[string]struct{}{}
	}
	l.told[holder][id] = struct{}{}
}

// Retire is Backend.Retire.
func (l *Leases) Retire(holder string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(holder, now)
	delete(l.told, holder)
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
