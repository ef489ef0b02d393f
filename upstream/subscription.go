package upstream

import (
	"net/http"
	"slices"

	"taskgate/wire"
)

// ListenRequest says on whose behalf an upstream is listened to, and for what.
type ListenRequest struct {
	// Want is what the listener wants to hear of, other than tasks.
	Want wire.Filter
	// Assume is what to take for honoured when the upstream does not say in
	// time; it is then still asked, and the listener told to look again.
	Assume wire.Filter
	// Room is how many bytes of notifications may wait for a slow listener; 0: no
	// limit.
	Room int64
	// ClientInfo, Capabilities, Principal and Header are as in Request.
	ClientInfo   wire.Raw
	Capabilities wire.Capabilities
	Principal    string
	Header       http.Header
}

// request is what of it a Request has too.
func (r ListenRequest) request() Request {
	return Request{ClientInfo: r.ClientInfo, Capabilities: r.Capabilities, Principal: r.Principal, Header: r.Header}
}

// Notification is what an upstream says on its own account. One that says that
// something may have been missed has no params but what names it.
type Notification struct {
	Method string
	Params wire.Raw // nil when there were none
}

// isLike tells notifications that say that the same is to be read again.
func (n Notification) isLike(m Notification) bool {
	return n.Method == m.Method && wire.UpdatedURI(n.Params) == wire.UpdatedURI(m.Params)
}

// bare is what of a notification says what is to be read again.
func (n Notification) bare() Notification {
	if n.Method != wire.NoteResource {
		return Notification{Method: n.Method}
	}
	uri := wire.Quote(wire.UpdatedURI(n.Params))
	return Notification{Method: n.Method, Params: wire.Object{}.With("uri", uri).Bytes()}
}

// Subscription hears notifications that belong to no call. Each says only that
// something is to be read again, so one that is said again before it was taken
// is kept once.
type Subscription struct {
	audience *audience
	want     wire.Filter
	room     int64 // see ListenRequest
	client   *Credentials
	changed  chan struct{} // capacity 1

	// under audiences.mu
	honoured     wire.Filter
	acknowledged bool // honoured is known, or assumed
	missed       bool // something may have been said while nobody heard it
	broken       int  // audience.broken when it came
	waiting      []Notification
}

// maxWaiting bounds what is kept for a slow listener, beside ListenRequest.Room.
// What does not fit is dropped (contract 10).
const maxWaiting = 256

// Honoured is the part of what was wanted that is told about.
func (s *Subscription) Honoured() wire.Filter { return s.honoured }

// Changed receives after there is something to take.
func (s *Subscription) Changed() <-chan struct{} { return s.changed }

// Take returns what was heard since the last call.
func (s *Subscription) Take() []Notification {
	s.audience.mu.Lock()
	defer s.audience.mu.Unlock()
	taken := s.waiting
	s.waiting = nil
	return taken
}

// Close ends the subscription. The upstream's stream is closed with the last of
// those who share it.
func (s *Subscription) Close() { s.audience.leave(s) }

// settle notes what the upstream honours.
func (s *Subscription) settle(honoured wire.Filter) {
	s.honoured, s.acknowledged = s.want.Common(honoured), true
}

// hear keeps a notification that was asked for; one that is too large for what
// room is left, without what it says beside what is to be read again. It reports
// whether there was room.
func (s *Subscription) hear(n Notification) bool {
	if !s.acknowledged || !s.honoured.Admits(n.Method, n.Params) {
		return true
	}
	s.waiting = slices.DeleteFunc(s.waiting, n.isLike)
	if !s.fits(n) {
		n = n.bare()
	}
	if !s.fits(n) {
		return false
	}
	s.waiting = append(s.waiting, n)
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return true
}

func (s *Subscription) fits(n Notification) bool {
	bytes := int64(len(n.Params))
	for _, w := range s.waiting {
		bytes += int64(len(w.Params))
	}
	return len(s.waiting) < maxWaiting && (s.room == 0 || bytes <= s.room)
}

// hearAll makes up for what may have been missed: all that is honoured is to be
// read again.
func (s *Subscription) hearAll() {
	for _, method := range []string{wire.NoteTools, wire.NotePrompts, wire.NoteResources} {
		s.hear(Notification{Method: method})
	}
	for _, uri := range s.honoured.URIs {
		s.hear(Notification{Method: wire.NoteResource, Params: wire.Object{}.With("uri", wire.Quote(uri)).Bytes()})
	}
}
