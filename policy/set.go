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

	candidates memo
}

// Warnings are the findings that did not keep the set from loading.
func (s *Set) Warnings() Findings { return s.warnings }

// Hash names the content of the files: equal files, equal hash.
func (s *Set) Hash() string { return s.hash }

// Decide says what becomes of a call. The first rule that matches decides; when
// none does, the defaults.
func (s *Set) Decide(q Query) Decision {
	return s.candidatesFor(q.Upstream, q.Tool)[0].decision
}

// candidatesFor returns the rules that match by name, in order, up to the first
// that always applies.
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
	for _, r := range s.rules {
		if r.upstream.matches(upstream) && r.tool.matches(tool) {
			return []*rule{r}
		}
	}
	return []*rule{s.fallback}
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
