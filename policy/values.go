package policy

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// values lists what holds for a rule and why.
func (r *rule) values() []Value {
	d, origins := r.layers.resolve()
	out := []Value{
		{Field: "task", Text: string(d.Task)},
		{Field: "promoteAfter", Text: bounded(d.learns.promoteAfter, d.PromoteAfter, "auto", d.Auto.Min, d.Auto.Max)},
		{Field: "timeout", Text: orNone(d.Timeout)},
		{Field: "idleTimeout", Text: orNone(d.IdleTimeout)},
		{Field: "ttl", Text: orNone(d.TTL)},
		{Field: "pollInterval", Text: bounded(d.learns.pollInterval, d.PollInterval, "adaptive", d.Auto.MinPoll, d.Auto.MaxPoll)},
		{Field: "auto", Text: fmt.Sprintf("promoteAfter %s to %s, pollInterval %s to %s", short(d.Auto.Min), short(d.Auto.Max), short(d.Auto.MinPoll), short(d.Auto.MaxPoll))},
		{Field: "input", Text: string(d.Input)},
		{Field: "inputTimeout", Text: d.InputTimeout.text()},
		{Field: "onLoss", Text: string(d.OnLoss)},
		{Field: "maxAttempts", Text: fmt.Sprint(d.MaxAttempts)},
		{Field: "concurrency", Text: d.Concurrency.text()},
		{Field: "dedupe", Text: d.Dedupe.text()},
		{Field: "undeclared", Text: string(d.Undeclared)},
		{Field: "scopes", Text: cmp.Or(strings.Join(d.Scopes, " "), "none")},
		{Field: "share", Text: string(d.Share)},
	}
	for i := range out {
		out[i].Origin = origins[out[i].Field]
	}
	return out
}

// bounded writes a setting that may follow from what is known of the tool.
func bounded(learns bool, d time.Duration, word string, low, high time.Duration) string {
	if !learns {
		return short(d)
	}
	return fmt.Sprintf("%s, %s to %s", word, short(low), short(high))
}

func (t InputTimeout) text() string {
	if t.After == 0 {
		return "none"
	}
	return fmt.Sprintf("%s, then %s", short(t.After), t.Then)
}

func (c Concurrency) text() string {
	if c.Limit == 0 {
		return "no limit"
	}
	text := fmt.Sprintf("%d at once per %s, %d waiting", c.Limit, c.Per, c.Queue)
	if c.Queue > 0 && c.Wait > 0 {
		text += " at most " + short(c.Wait)
	}
	return text
}

func (d Dedupe) text() string {
	if d.Within == 0 {
		return "none"
	}
	keys := make([]string, len(d.By))
	for i, k := range d.By {
		keys[i] = string(k)
	}
	return fmt.Sprintf("same %s within %s", strings.Join(keys, ", "), short(d.Within))
}

// orNone writes a duration of which zero means that there is none.
func orNone(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return short(d)
}

// short writes a duration as people do: 2h and not 2h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
