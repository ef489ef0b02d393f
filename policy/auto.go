package policy

import (
	"encoding/json"
	"time"

	"taskgate/internal/strictyaml"
)

// Auto bounds what `promoteAfter: auto` and `pollInterval: adaptive` may become.
type Auto struct {
	Min     time.Duration `json:"min" yaml:"min"` // of promoteAfter, for a tool that is not slow
	Max     time.Duration `json:"max" yaml:"max"` // of promoteAfter
	MinPoll time.Duration `json:"minPoll" yaml:"minPoll"`
	MaxPoll time.Duration `json:"maxPoll" yaml:"maxPoll"`
}

// SetDefaults is what a file gets that leaves members out.
func (a *Auto) SetDefaults() {
	*a = Auto{Min: time.Second, Max: 10 * time.Second, MinPoll: time.Second, MaxPoll: 30 * time.Second}
}

// learned is a duration that stands for "as was measured".
const learned = -1

// promoteWait is a duration, or auto.
type promoteWait time.Duration

// UnmarshalText reads a file's value.
func (w *promoteWait) UnmarshalText(text []byte) (err error) {
	d, err := orLearned(string(text), "auto")
	*w = promoteWait(d)
	return err
}

// pollWait is a duration, or adaptive.
type pollWait time.Duration

// UnmarshalText reads a file's value.
func (w *pollWait) UnmarshalText(text []byte) (err error) {
	d, err := orLearned(string(text), "adaptive")
	*w = pollWait(d)
	return err
}

func orLearned(text, word string) (time.Duration, error) {
	if text == word {
		return learned, nil
	}
	return strictyaml.ParseDuration(text)
}

// learns says which settings of a decision follow from what was measured.
type learns struct{ promoteAfter, pollInterval bool }

// seed takes the words out of the decision: what holds while nothing is known.
func (d *Decision) seed() {
	d.learns = learns{d.PromoteAfter == learned, d.PollInterval == learned}
	*d = d.at(Query{})
}

// at is the decision for a call whose tool has the query's pace.
func (d Decision) at(q Query) Decision {
	if d.learns.promoteAfter {
		d.PromoteAfter, _ = d.Auto.promoteAfter(q)
	}
	if d.learns.pollInterval {
		rest := max(q.Pace.Usual-d.PromoteAfter, 0)
		d.PollInterval = within(rest/pollsPerRest, d.Auto.MinPoll, d.Auto.MaxPoll)
	}
	return d
}

// pollsPerRest is how often a client should ask while the usual call goes on.
const pollsPerRest = 5

// promoteAfter is how long a call is waited for, and why. Once enough is known, 0
// for a tool that nearly always takes longer than is waited for, and else twice
// the time that its quick calls take.
//
// Before that it follows from what the tool says of itself. One that may run as a
// task (execution.taskSupport of 2025-11-25) is not waited for long; "forbidden"
// there says nothing of speed. One that only reads, and only what is its own, is
// nearly always a look-up. The other annotations say what a tool does, not for
// how long: readOnlyHint alone is a look-up as well as a report of an hour.
func (a Auto) promoteAfter(q Query) (time.Duration, string) {
	switch p := q.Pace; {
	case p.Calls >= enough && p.Quick > a.Max:
		return 0, "it nearly always takes longer than auto.max"
	case p.Calls >= enough && p.Slow <= a.Max:
		return within(2*p.Slow, a.Min, a.Max), "twice what it takes at most, nearly always"
	case p.Calls >= enough: // those are worth the wait
		return within(2*p.Quick, a.Min, a.Max), "twice what its quick calls take; others take longer than auto.max"
	case q.TaskSupport == string(Optional) || q.TaskSupport == string(Required):
		return a.Min, "it says that it may run as a task (taskSupport)"
	case readsOnlyItsOwn(q.Annotations):
		return a.Max, "it says that it only reads, and only what is its own (readOnlyHint, and openWorldHint: false)"
	}
	return within(usualWait, a.Min, a.Max), "nothing is known of it"
}

func readsOnlyItsOwn(annotations json.RawMessage) bool {
	h, err := parseHints(annotations)
	return err == nil && h.ReadOnly && h.OpenWorld != nil && !*h.OpenWorld
}

// usualWait is promoteAfter as it is built in.
const usualWait = 2 * time.Second

func within(d, low, high time.Duration) time.Duration { return min(max(d, low), high) }
