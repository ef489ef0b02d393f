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
	by    map[string]uint64 // the id of the call, by that of the question, verbatim
	mixed bool              // the server was seen to mix streams
}

// maxClaims bounds what a session remembers; then it begins anew.
const maxClaims = 10_000

// take notes a question that came on the call's own stream, or that it had before.
func (s *claims) take(question wire.Raw, call uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil || len(s.by) >= maxClaims {
		s.by = map[string]uint64{}
	}
	s.by[string(question)] = call
}

// has tells whether the call has the question already.
func (s *claims) has(question wire.Raw, call uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, owned := s.by[string(question)]
	return owned && owner == call
}

// free tells whether a question on a stream that was taken up again can be no
// other call's. alone: the session has had no other call.
func (s *claims) free(question wire.Raw, alone bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, owned := s.by[string(question)]; owned {
		s.mixed = true
		return false
	}
	return alone || !s.mixed
}

// mix notes that something of another call was on a call's stream.
func (s *claims) mix() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mixed = true
}
