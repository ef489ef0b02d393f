package policy

import (
	"strings"
	"sync"
)

// rule is one rule, compiled.
type rule struct {
	name     string
	file     *file
	path     string // in file
	upstream pattern
	tool     pattern
	when     *condition // nil: always
	decision Decision
	layers   layers
}

// Set is a compiled set of policy files. It does not change and may be used by
// any number of goroutines.
type Set struct {
	rules    []*rule
	fallback *rule // what no rule matches
	warnings Findings
	hash     string
	jobs     []*rule // by which calls can become jobs
	// onEvalError is called once for each rule whose condition fails; may be nil.
	onEvalError func(EvalError)

	candidates memo
}

// Warnings are the findings that did not keep the set from loading.
func (s *Set) Warnings() Findings { return s.warnings }

// Hash names the content of the files: equal files, equal hash.
func (s *Set) Hash() string { return s.hash }

// Decide says what becomes of a call. The first rule that matches decides; when
// none does, the defaults. It is pure but for counting conditions that fail.
func (s *Set) Decide(q Query) Decision {
	found := s.candidatesFor(q.Upstream, q.Tool)
	if found[0].when == nil {
		return found[0].decision.at(q)
	}
	return s.decideByCondition(q, found).at(q)
}

// decideByCondition is apart from Decide because what it needs is allocated.
func (s *Set) decideByCondition(q Query, found []*rule) Decision {
	f := &facts{query: q}
	for _, r := range found {
		if r.when == nil {
			return r.decision
		}
		yes, err := r.when.holds(f)
		if err != nil && r.when.count(err) && s.onEvalError != nil {
			s.onEvalError(r.evalError())
		}
		if yes {
			return r.decision
		}
	}
	return s.fallback.decision
}

// candidatesFor returns the rules that match by name, in order, up to the first
// without a condition.
func (s *Set) candidatesFor(upstream, tool string) []*rule {
	key := memoKey{upstream, tool}
	if found := s.candidates.get(key); found != nil {
		return found
	}
	found := s.search(upstream, tool)
	s.candidates.put(key, found)
	return found
}

func (s *Set) search(upstream, tool string) []*rule {
	var found []*rule
	for _, r := range s.rules {
		if !r.upstream.matches(upstream) || !r.tool.matches(tool) {
			continue
		}
		if found = append(found, r); r.when == nil {
			return found
		}
	}
	return append(found, s.fallback)
}

// EvalError is a condition that could not be evaluated: its rule then does not
// match.
type EvalError struct {
	Rule   string
	Source string // file:line
	Count  int64
	First  string // the kind of the first failure; never a part of the arguments
}

// EvalErrors lists the conditions that failed since the set was loaded.
func (s *Set) EvalErrors() []EvalError {
	var out []EvalError
	for _, r := range s.rules {
		if r.when != nil && r.when.failed.Load() > 0 {
			out = append(out, r.evalError())
		}
	}
	return out
}

func (r *rule) evalError() EvalError {
	e := EvalError{Rule: r.name, Source: r.source(), Count: r.when.failed.Load()}
	if first := r.when.first.Load(); first != nil {
		e.First = *first
	}
	return e
}

// Bounds of a memo. The names come from clients.
const (
	memoEntries   = 4096
	memoNameBytes = 256
)

// memo remembers the outcome of searches: the tools that are really called are
// few. When it is full it starts anew, so that made-up names displace the real
// ones only for a moment.
type memo struct {
	mu      sync.RWMutex
	entries map[memoKey][]*rule
}

type memoKey struct{ upstream, tool string }

func (m *memo) get(k memoKey) []*rule {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.entries[k]
}

func (m *memo) put(k memoKey, found []*rule) {
	if len(k.upstream)+len(k.tool) > memoNameBytes {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries == nil || len(m.entries) >= memoEntries {
		m.entries = map[memoKey][]*rule{}
	}
	// The names may be part of a whole request body, which is not to be kept.
	m.entries[memoKey{strings.Clone(k.upstream), strings.Clone(k.tool)}] = found
}
