package policy

import (
	"time"

	"taskgate/internal/strictyaml"
)

// layer is one place where settings are said.
type layer struct {
	*settings
	level  string // "rule", "defaults", "profile edge", "built-in"
	parent string // path in file
	file   *file  // nil for what is compiled in
}

// Origin says where a value comes from.
type Origin struct {
	Level  string // "rule", "defaults", "profile …", "built-in", or the setting that implies it
	Source string // file:line; "" for what is compiled in
}

func (l layer) origin(field string) Origin {
	if l.file == nil {
		return Origin{Level: l.level}
	}
	return Origin{l.level, source(l.file.name, l.file.line(l.parent, field))}
}

// layers are ordered from the rule down to what is built in. The last one says
// everything.
type layers []layer

// builtIn is the default policy.
func builtIn() layer {
	return layer{level: "built-in", settings: &settings{
		Task:         ptr(Optional),
		PromoteAfter: ptr(promoteWait(usualWait)),
		Timeout:      ptr(15 * time.Minute),
		IdleTimeout:  ptr(time.Duration(0)),
		TTL:          ptr(time.Hour),
		PollInterval: ptr(pollWait(time.Second)),
		Auto:         withDefaults(new(Auto)),
		Input:        ptr(InputTask),
		InputTimeout: withDefaults(new(InputTimeout)),
		OnLoss:       ptr(LossFails),
		MaxAttempts:  ptr(1),
		Concurrency:  withDefaults(new(Concurrency)),
		Dedupe:       withDefaults(new(Dedupe)),
		Undeclared:   ptr(Hold),
		Scopes:       &[]string{},
		Share:        ptr(ShareOwner),
	}}
}

// withDefaults is what a file gets that leaves all members out.
func withDefaults[T strictyaml.Defaulter](v T) T {
	v.SetDefaults()
	return v
}

func ptr[T any](v T) *T { return &v }

// resolver collects the effective values of layers and where each is from.
type resolver struct {
	layers  layers
	origins map[string]Origin
	depth   map[string]int // index of the layer that said it
}

// pick returns the first value that is said.
func pick[T any](r *resolver, field string, get func(*settings) *T) T {
	var zero T
	for i, l := range r.layers {
		if p := get(l.settings); p != nil {
			r.origins[field], r.depth[field] = l.origin(field), i
			return *p
		}
	}
	return zero
}

// resolve merges layers into a decision, rule and source left empty.
func (ls layers) resolve() (Decision, map[string]Origin) {
	r := &resolver{ls, map[string]Origin{}, map[string]int{}}
	d := Decision{
		Task:         pick(r, "task", func(s *settings) *Mode { return s.Task }),
		PromoteAfter: time.Duration(pick(r, "promoteAfter", func(s *settings) *promoteWait { return s.PromoteAfter })),
		Timeout:      pick(r, "timeout", func(s *settings) *time.Duration { return s.Timeout }),
		IdleTimeout:  pick(r, "idleTimeout", func(s *settings) *time.Duration { return s.IdleTimeout }),
		TTL:          pick(r, "ttl", func(s *settings) *time.Duration { return s.TTL }),
		PollInterval: time.Duration(pick(r, "pollInterval", func(s *settings) *pollWait { return s.PollInterval })),
		Auto:         pick(r, "auto", func(s *settings) *Auto { return s.Auto }),
		Input:        pick(r, "input", func(s *settings) *InputMode { return s.Input }),
		InputTimeout: pick(r, "inputTimeout", func(s *settings) *InputTimeout { return s.InputTimeout }),
		OnLoss:       pick(r, "onLoss", func(s *settings) *OnLoss { return s.OnLoss }),
		MaxAttempts:  pick(r, "maxAttempts", func(s *settings) *int { return s.MaxAttempts }),
		Concurrency:  pick(r, "concurrency", func(s *settings) *Concurrency { return s.Concurrency }),
		Dedupe:       pick(r, "dedupe", func(s *settings) *Dedupe { return s.Dedupe }),
		Undeclared:   pick(r, "undeclared", func(s *settings) *Undeclared { return s.Undeclared }),
		Scopes:       pick(r, "scopes", func(s *settings) *[]string { return s.Scopes }),
		Share:        pick(r, "share", func(s *settings) *Share { return s.Share }),
	}
	r.imply(&d)
	d.seed()
	return d, r.origins
}

// imply settles what the mode decides for other settings. A promoteAfter counts
// for a required task only when it is said where the task is required, or
// nearer to the call: a general default is no reason to wait there.
func (r *resolver) imply(d *Decision) {
	implied := Origin{"implied by task: " + string(d.Task), r.origins["task"].Source}
	switch d.Task {
	case Required:
		if r.depth["promoteAfter"] > r.depth["task"] {
			d.PromoteAfter, r.origins["promoteAfter"] = 0, implied
		}
		if d.Undeclared != Jobs { // which are tasks under another name
			d.Undeclared, r.origins["undeclared"] = Reject, implied
		}
	case Forbidden:
		d.Input, r.origins["input"] = InputMRTR, implied
		d.Undeclared, r.origins["undeclared"] = Hold, implied
	}
}
