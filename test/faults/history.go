package faults

import (
	"slices"
	"sync"
	"time"
)

// Kind is what an Event tells.
type Kind string

// What clients do and see.
const (
	Called    Kind = "called"    // a client has sent the call
	Acked     Kind = "acked"     // it was given the handle Task
	Answered  Kind = "answered"  // it was given the result Body at once
	Saw       Kind = "saw"       // tasks/get showed Status, and Body once it is final
	Unknown   Kind = "unknown"   // tasks/get did not know the handle
	Responded Kind = "responded" // a client has sent the answer Body; whether it arrived is open
)

// What the upstream does, and what is done to it all.
const (
	Ran      Kind = "ran"      // the tool has begun its work
	Heard    Kind = "heard"    // the tool was given the answer Body
	Returned Kind = "returned" // the tool has returned Body
	Stopped  Kind = "stopped"  // the tool was told to stop, or its server was
	Outage   Kind = "outage"   // nobody could work: the store was down
)

// Event is one thing that somebody did or saw. It happened at some moment
// between Began and Ended, by one monotonic clock.
type Event struct {
	Kind         Kind
	Began, Ended time.Time

	Call   string // an argument that no other call has
	Task   string
	Status string
	Body   string
	// Allowed is how often a Called may reach the upstream.
	Allowed int
}

// History is what happened, in no order. The zero value is ready for use.
type History struct {
	mu     sync.Mutex
	events []Event
}

// Add puts e down. Without a time it happened now.
func (h *History) Add(e Event) {
	now := time.Now()
	if e.Ended.IsZero() {
		e.Ended = now
	}
	if e.Began.IsZero() {
		e.Began = e.Ended
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// Events are those so far, by the time they began.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := slices.Clone(h.events)
	slices.SortStableFunc(events, func(a, b Event) int { return a.Began.Compare(b.Began) })
	return events
}
