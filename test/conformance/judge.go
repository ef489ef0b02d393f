package conformance

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Excuse names checks that cannot be met, and why.
type Excuse struct {
	Checks []Key  `yaml:"checks"`
	Reason string `yaml:"reason"`
}

// ParseExcuses reads the excuses of each lane. An unknown member, an entry
// without a reason and a check that is named twice are errors.
func ParseExcuses(text []byte) (map[string][]Excuse, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var lanes map[string][]Excuse
	if err := dec.Decode(&lanes); err != nil {
		return nil, fmt.Errorf("excuses: %w", err)
	}
	for lane, excuses := range lanes {
		seen := map[Key]bool{}
		for _, e := range excuses {
			if e.Reason == "" || len(e.Checks) == 0 {
				return nil, fmt.Errorf("excuses: %s: an entry needs checks and a reason: %+v", lane, e)
			}
			for _, k := range e.Checks {
				if seen[k] {
					return nil, fmt.Errorf("excuses: %s: %s is named twice", lane, k)
				}
				seen[k] = true
			}
		}
	}
	return lanes, nil
}

// Verdict is what Judge finds in a report.
type Verdict struct {
	Met, Wanted, Excused int
	// Complaints say what is wrong, one line each.
	Complaints []string
}

// Judge compares a report with the checks that must succeed. A check outside of
// want must not fail either. An excuse for a check that has succeeded is stale,
// which is as wrong as a failure.
func Judge(r Report, want []Key, excuses []Excuse) Verdict {
	v := Verdict{Wanted: len(want)}
	excused := map[Key]bool{}
	for _, e := range excuses {
		for _, k := range e.Checks {
			excused[k] = true
		}
	}
	problems := map[Key]string{}
	for _, k := range want {
		if p := r.problem(k); p != "" {
			problems[k] = p
		} else {
			v.Met++
		}
	}
	for k, c := range r {
		if c.Status == "FAILURE" || c.Status == "WARNING" {
			problems[k] = r.problem(k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(problems)) {
		if excused[k] {
			v.Excused++
			delete(excused, k)
		} else {
			v.Complaints = append(v.Complaints, fmt.Sprintf("%s: %s", k, problems[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(excused)) {
		v.Complaints = append(v.Complaints, fmt.Sprintf("%s: is excused, but there is nothing to excuse", k))
	}
	return v
}

// problem says why a check does not count as met, "" when it does.
func (r Report) problem(k Key) string {
	c, ok := r[k]
	switch {
	case !ok:
		return "the suite did not make this check"
	case c.Status != Success:
		return c.Status + ": " + c.ErrorMessage
	}
	return ""
}

// Successes are the checks that were met, sorted, of the scenarios that keep
// says yes to.
func (r Report) Successes(keep func(scenario string) bool) []Key {
	var keys []Key
	for k, c := range r {
		if c.Status == Success && keep(k.Scenario()) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// only is the part of the report that belongs to the scenarios of keep.
func (r Report) only(keep func(scenario string) bool) Report {
	part := Report{}
	for k, c := range r {
		if keep(k.Scenario()) {
			part[k] = c
		}
	}
	return part
}
