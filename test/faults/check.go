package faults

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Bounds are the times that the promises name.
type Bounds struct {
	// TTL is how long a handle is known from its call on.
	TTL time.Duration
	// Work is the longest that a tool runs, less the time it waits for answers.
	Work time.Duration
	// Lapse is how long a task may be working although nobody works for it:
	// twice the lease, and what a busy machine needs.
	Lapse time.Duration
}

// Violation is one broken promise.
type Violation struct {
	Promise string
	Call    string
	Detail  string
}

func (v Violation) String() string { return v.Promise + ": call " + v.Call + ": " + v.Detail }

// The promises.
const (
	known    = "an acknowledged handle is known until its ttl"
	final    = "what is terminal is final"
	once     = "an answer is applied once"
	runs     = "a call reaches the upstream no more often than policy allows"
	abides   = "no task is working for long when nobody works for it"
	verbatim = "a result is what the upstream sent"
)

// Check finds, of each call, the first violation of every promise. The events are
// in order of their beginning.
func Check(events []Event, b Bounds) []Violation {
	calls := map[string]*story{}
	var outages []Event
	for _, e := range events {
		if e.Kind == Outage {
			outages = append(outages, e)
			continue
		}
		if calls[e.Call] == nil {
			calls[e.Call] = &story{call: e.Call, seen: map[Kind][]Event{}}
		}
		calls[e.Call].seen[e.Kind] = append(calls[e.Call].seen[e.Kind], e)
	}
	var found []Violation
	for _, call := range slices.Sorted(maps.Keys(calls)) {
		s := calls[call]
		s.checkKnown(b)
		s.checkFinal()
		s.checkOnce()
		s.checkRuns()
		s.checkAbides(b, outages)
		s.checkVerbatim()
		found = append(found, s.found...)
	}
	return found
}

// story is all that is known of one call.
type story struct {
	call  string
	seen  map[Kind][]Event // each in order of beginning
	found []Violation
}

// violates puts down the first violation of a promise.
func (s *story) violates(promise, format string, args ...any) {
	if slices.ContainsFunc(s.found, func(v Violation) bool { return v.Promise == promise }) {
		return
	}
	s.found = append(s.found, Violation{promise, s.call, fmt.Sprintf(format, args...)})
}

// allowed is how often the call may reach the upstream. A call that nobody made
// may not at all.
func (s *story) allowed() int {
	n := 0
	for _, e := range s.seen[Called] {
		n += e.Allowed
	}
	return n
}

func (s *story) checkKnown(b Bounds) {
	for _, acked := range s.seen[Acked] {
		for _, e := range s.seen[Unknown] {
			if e.Began.After(acked.Ended) && e.Ended.Before(acked.Began.Add(b.TTL)) {
				s.violates(known, "task %s was unknown %v after its handle was given", e.Task, e.Began.Sub(acked.Ended))
			}
		}
	}
}

// checkFinal: whoever looks after somebody has seen an end sees the same end.
func (s *story) checkFinal() {
	var end *Event // the first to be known
	for _, e := range s.seen[Saw] {
		if terminal(e.Status) && (end == nil || e.Ended.Before(end.Ended)) {
			end = &e
		}
	}
	for _, e := range s.seen[Saw] {
		late := end != nil && e.Began.After(end.Ended)
		if (late || terminal(e.Status)) && (e.Status != end.Status || e.Body != end.Body) {
			s.violates(final, "was %s %.200s and then %s %.200s", end.Status, end.Body, e.Status, e.Body)
		}
	}
}

func (s *story) checkOnce() {
	if heard := len(s.seen[Heard]); heard > max(s.allowed(), 1) {
		s.violates(once, "the tool was answered %d times", heard)
	}
	for _, e := range s.seen[Heard] {
		if !slices.ContainsFunc(s.seen[Responded], func(r Event) bool { return r.Body == e.Body }) {
			s.violates(once, "the tool was given an answer that nobody gave: %.200s", e.Body)
		}
	}
}

func (s *story) checkRuns() {
	if n := len(s.seen[Ran]); n > s.allowed() {
		s.violates(runs, "the tool ran %d times, %d allowed", n, s.allowed())
	}
}

// checkAbides: whoever sees a task working sees one that somebody can still be
// working for, or that was abandoned a short while ago.
func (s *story) checkAbides(b Bounds, outages []Event) {
	limit := time.Duration(max(s.allowed(), 1))*b.Work + b.Lapse
	var since time.Time // when the task last had reason to go on
	for _, e := range s.seen[Acked] {
		since = later(since, e.Ended)
	}
	for _, e := range s.seen[Saw] {
		if e.Status == "input_required" {
			since = later(since, e.Ended)
		}
		if e.Status != "working" {
			continue
		}
		if took := between(since, e.Began, outages); !since.IsZero() && took > limit {
			s.violates(abides, "working %v after its handle or last question, more than %v", took, limit)
		}
		returned, ok := s.returnedBefore(e.Began)
		if took := between(returned, e.Began, outages); ok && took > b.Lapse {
			s.violates(abides, "working %v after the tool returned, more than %v", took, b.Lapse)
		}
	}
}

// returnedBefore is when the tool last returned before a moment; not ok when it
// has not, or has begun again since.
func (s *story) returnedBefore(moment time.Time) (at time.Time, ok bool) {
	for _, e := range s.seen[Returned] {
		if e.Ended.Before(moment) {
			at, ok = later(at, e.Ended), true
		}
	}
	for _, e := range s.seen[Ran] {
		if e.Began.After(at) && e.Began.Before(moment) {
			ok = false
		}
	}
	return at, ok
}

// between is how much of the time from a to b was no outage. Outages do not
// overlap.
func between(a, b time.Time, outages []Event) time.Duration {
	took := b.Sub(a)
	for _, o := range outages {
		from, to := later(a, o.Began), b
		if o.Ended.Before(to) {
			to = o.Ended
		}
		took -= max(to.Sub(from), 0)
	}
	return took
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *story) checkVerbatim() {
	got := slices.Clone(s.seen[Answered])
	for _, e := range s.seen[Saw] {
		if e.Status == "completed" {
			got = append(got, e)
		}
	}
	for _, e := range got {
		if !slices.ContainsFunc(s.seen[Returned], func(r Event) bool { return r.Body == e.Body }) {
			s.violates(verbatim, "the upstream never sent %.200s", e.Body)
		}
	}
}

func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}
