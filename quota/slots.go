package quota

import (
	"errors"
	"sync"
)

// Errors of Slots.Take.
var (
	// ErrOwn: the key has as many as one may have.
	ErrOwn = errors.New("this caller has as many as one may have")
	// ErrAll: all keys together have as many as there are.
	ErrAll = errors.New("all callers together have as many as there are")
)

// Slots bound what is open at once, of each key and of all. A key that has
// nothing open takes no memory.
type Slots struct {
	each, all int

	mu    sync.Mutex
	taken int
	byKey map[string]int
}

// NewSlots returns Slots of which a key may have each, and all keys together all.
func NewSlots(each, all int) *Slots { return &Slots{each: each, all: all, byKey: map[string]int{}} }

// Take takes a slot, which Give is to give back. Errors: ErrOwn, ErrAll.
func (s *Slots) Take(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.byKey[key] >= s.each:
		return ErrOwn
	case s.taken >= s.all:
		return ErrAll
	}
	s.taken++
	s.byKey[key]++
	return nil
}

// Give gives back what Take took.
func (s *Slots) Give(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.byKey[key]--; s.byKey[key] == 0 {
		delete(s.byKey, key)
	}
}

// Taken is how many slots are in use.
func (s *Slots) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
