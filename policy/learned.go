package policy

import (
	"fmt"
	"time"
)

// Learned is a setting that follows from what is known of the tool.
type Learned struct {
	Field string
	Text  string
	Why   string
}

// learned says what the decision has made of what is known of the tool.
func (d Decision) learned(q Query) []Learned {
	var out []Learned
	if d.learns.promoteAfter {
		_, why := d.Auto.promoteAfter(q)
		out = append(out, Learned{"promoteAfter", about(d.PromoteAfter), why})
	}
	if d.learns.pollInterval {
		out = append(out, Learned{"pollInterval", about(d.PollInterval), fmt.Sprintf("%d times in what the usual call still has before it, within the bounds", pollsPerRest)})
	}
	if len(out) > 0 {
		out = append(out, Learned{"measured", fmt.Sprintf("%d calls", q.Pace.Calls), q.Pace.text()})
	}
	return out
}

func (p Pace) text() string {
	if p.Calls == 0 {
		return "a gateway that runs tells what it has measured with --live"
	}
	return fmt.Sprintf("of late; one in ten took at most %s, half of them %s, nine in ten %s", about(p.Quick), about(p.Usual), about(p.Slow))
}

// about writes a duration that is not exact.
func about(d time.Duration) string {
	if d > time.Second {
		return short(d.Round(100 * time.Millisecond))
	}
	return short(d.Round(time.Millisecond))
}
