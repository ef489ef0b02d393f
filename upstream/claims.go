package upstream

import (
	"sync"

	"taskgate/wire"
)

// claims say which call of a session a question belongs to (contract 9). On a
// call's own stream that is plain. A stream that was taken up again should hold
// nothing else either, but there are servers that mix in what belongs to others.
type claims struct {
	mu    sync.Mutex
	by    map[string]*conversation // by the upstream's id, verbatim
	mixed bool                     // the server was seen to mix streams
}

// maxClaims bounds what a session remembers; then it begins anew.
const maxClaims = 10_000

// take notes a question that came on c's own stream, or that it had before.
func (s *claims) take(id wire.Raw, c *conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil || len(s.by) >= maxClaims {
		s.by = map[string]*conversation{}
	}
	s.by[string(id)] = c
}

// tryTake tells whether a question on a stream that c has taken up again is new
// and c's own. alone: the session has had no other call.
func (s *claims) tryTake(id wire.Raw, c *conversation, alone bool) bool {
	s.mu.Lock()
	owner := s.by[string(id)]
	if owner != nil && owner != c {
		s.mixed = true
	}
	ours := owner == nil && (alone || !s.mixed)
	s.mu.Unlock()
	if ours {
		s.take(id, c)
	}
	return ours
}

// mix notes that something of another call was on a call's stream.
func (s *claims) mix() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mixed = true
}
