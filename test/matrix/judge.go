package matrix

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Steps are what each client tries with each server, in this order.
var Steps = []string{"connect", "list", "call", "slow", "question", "cancel"}

// Step is what a client says of one step.
type Step struct {
	Step   string `json:"step"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason"`
}

// Reason says why some steps do not work. Without clients it holds for all of
// them, and so without upstreams.
type Reason struct {
	Clients   []string `yaml:"clients"`
	Upstreams []string `yaml:"upstreams"`
	Steps     []string `yaml:"steps"`
	Reason    string   `yaml:"reason"`
}

// ParseReasons reads the reasons. An unknown member, a name that is no client,
// upstream or step, and an entry without steps or a reason are errors.
func ParseReasons(text []byte, clients, upstreams []string) ([]Reason, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var reasons []Reason
	if err := dec.Decode(&reasons); err != nil {
		return nil, fmt.Errorf("reasons: %w", err)
	}
	for i, r := range reasons {
		if r.Reason == "" || len(r.Steps) == 0 {
			return nil, fmt.Errorf("reasons: entry %d needs steps and a reason", i+1)
		}
		for _, names := range []struct{ given, known []string }{{r.Clients, clients}, {r.Upstreams, upstreams}, {r.Steps, Steps}} {
			for _, name := range names.given {
				if !slices.Contains(names.known, name) {
					return nil, fmt.Errorf("reasons: entry %d names %q, which is none of %q", i+1, name, names.known)
				}
			}
		}
	}
	return reasons, nil
}

func (r Reason) covers(client, upstream, step string) bool {
	in := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	return in(r.Clients, client) && in(r.Upstreams, upstream) && slices.Contains(r.Steps, step)
}

// Missing is a step of a cell that does not work, with the index of its reason.
type Missing struct {
	Step   string
	Reason int
}

// Judge compares what a client says of its steps at an upstream with the
// reasons. Complaints say what is wrong, one line each: a step without
// success or reason, and a reason for a step that works.
func Judge(client, upstream string, said []Step, reasons []Reason) (missing []Missing, complaints []string) {
	for _, step := range Steps {
		reason := slices.IndexFunc(reasons, func(r Reason) bool { return r.covers(client, upstream, step) })
		i := slices.IndexFunc(said, func(s Step) bool { return s.Step == step })
		works := i >= 0 && said[i].OK
		switch {
		case works && reason >= 0:
			complaints = append(complaints, fmt.Sprintf("%s: works, though entry %d of the reasons says that it does not", step, reason+1))
		case works:
		case reason >= 0:
			missing = append(missing, Missing{step, reason})
		case i < 0:
			complaints = append(complaints, step+": the client has not got to it")
		default:
			complaints = append(complaints, fmt.Sprintf("%s: %s", step, cmp.Or(said[i].Reason, "failed without saying why")))
		}
	}
	return missing, complaints
}
