package faults

import (
	"testing"
	"time"
)

var testBounds = Bounds{TTL: time.Minute, Work: 2 * time.Second, Lapse: 5 * time.Second}

// at is an event of call "c" that began and ended at so many seconds.
func at(seconds float64, kind Kind, status, body string) Event {
	moment := time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
	return Event{Kind: kind, Began: moment, Ended: moment, Call: "c", Task: "t", Status: status, Body: body}
}

// lasting is e, ending so many seconds after it began.
func lasting(seconds float64, e Event) Event {
	e.Ended = e.Began.Add(time.Duration(seconds * float64(time.Second)))
	return e
}

func called(allowed int) Event {
	e := at(0, Called, "", "")
	e.Allowed = allowed
	return e
}

// after is what a call is that has become a task after a second.
func after(allowed int, more ...Event) []Event {
	return append([]Event{called(allowed), at(0.5, Ran, "", ""), at(1, Acked, "", "")}, more...)
}

func TestCheck(t *testing.T) {
	returned := at(2, Returned, "", "r")
	for name, c := range map[string]struct {
		events []Event
		want   string // "": nothing
	}{
		"a good life": {after(1, at(1.5, Saw, "working", ""), returned, at(3, Saw, "completed", "r"), at(9, Saw, "completed", "r")), ""},
		"at once":     {[]Event{called(1), at(1, Ran, "", ""), returned, at(3, Answered, "", "r")}, ""},

		"unknown":                          {after(1, at(2, Unknown, "", "")), known},
		"unknown after its ttl":            {after(1, at(62, Unknown, "", "")), ""},
		"asked before it was acknowledged": {[]Event{called(1), lasting(2, at(0.5, Acked, "", "")), at(1, Unknown, "", "")}, ""},

		"alive again":                  {after(1, returned, at(3, Saw, "completed", "r"), at(4, Saw, "working", "")), final},
		"a look that overtook the end": {after(1, returned, lasting(2, at(2.5, Saw, "working", "")), at(3, Saw, "completed", "r")), ""},
		"other status":                 {after(1, returned, at(3, Saw, "cancelled", ""), at(4, Saw, "completed", "r")), final},
		"other bytes":                  {after(2, returned, at(2, Returned, "", "s"), at(3, Saw, "completed", "r"), at(4, Saw, "completed", "s")), final},

		"answered":               {after(1, at(2, Responded, "", "a"), at(2, Responded, "", "b"), at(3, Heard, "", "b")), ""},
		"answered twice":         {after(1, at(2, Responded, "", "a"), at(3, Heard, "", "a"), at(4, Heard, "", "a")), once},
		"answered by a ghost":    {after(1, at(2, Responded, "", "a"), at(3, Heard, "", "b")), once},
		"asked again in a rerun": {after(2, at(2, Responded, "", "a"), at(3, Heard, "", "a"), at(4, Heard, "", "a")), ""},

		"run twice":              {after(1, at(3, Ran, "", "")), runs},
		"run twice, as allowed":  {after(2, at(3, Ran, "", "")), ""},
		"run without being sent": {[]Event{at(1, Ran, "", "")}, runs},

		"abandoned":                   {after(1, at(9, Saw, "working", "")), abides},
		"run again":                   {after(2, at(9, Saw, "working", "")), ""},
		"not picked up":               {after(3, returned, at(7.5, Saw, "working", "")), abides},
		"begun again":                 {after(3, returned, at(7, Ran, "", ""), at(7.5, Saw, "working", "")), ""},
		"answered late":               {after(1, at(30, Saw, "input_required", ""), at(35, Saw, "working", "")), ""},
		"abandoned during an outage":  {after(1, lasting(4, at(2, Outage, "", "")), at(9, Saw, "working", "")), ""},
		"abandoned despite an outage": {after(1, lasting(4, at(2, Outage, "", "")), at(13, Saw, "working", "")), abides},

		"other result":          {after(1, returned, at(3, Saw, "completed", "R")), verbatim},
		"other answer":          {[]Event{called(1), at(1, Ran, "", ""), returned, at(3, Answered, "", "R")}, verbatim},
		"result out of nowhere": {after(1, at(3, Saw, "completed", "r")), verbatim},
	} {
		t.Run(name, func(t *testing.T) {
			var h History
			for _, e := range c.events {
				h.Add(e)
			}
			found := Check(h.Events(), testBounds)
			switch {
			case c.want == "" && len(found) > 0:
				t.Errorf("found %v in a good history", found)
			case c.want != "" && (len(found) != 1 || found[0].Promise != c.want):
				t.Errorf("found %v, want one of %q", found, c.want)
			}
		})
	}
}

func TestEventsHappenNowByDefault(t *testing.T) {
	var h History
	before := time.Now()
	h.Add(Event{Kind: Ran, Call: "c"})
	if e := h.Events()[0]; e.Began.Before(before) || e.Ended.Before(e.Began) || e.Ended.After(time.Now()) {
		t.Errorf("the event is from %v to %v", e.Began, e.Ended)
	}
}
