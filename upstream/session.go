package upstream

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"taskgate/wire"
)

// session is what initialize has agreed on. A modern server has none; then it is
// a line only.
type session struct {
	key     sessionKey
	line    line
	channel *channel // the line, when it is one; nil: calls do not mix there
	id      string   // Mcp-Session-Id; "" when the server gave none
	version string   // negotiated protocol version
	init    wire.Raw // the InitializeResult
	tools   toolList
	claims  claims
	level   logLevel
	begun   atomic.Int64 // all calls so far

	// guarded by pool.mu
	calls     int
	asking    int // those of them that may ask
	retired   bool
	idleSince time.Time
	header    http.Header  // of the last call, for the DELETE
	client    *Credentials // likewise
}

func newSession(l line) *session {
	s := &session{line: l}
	s.channel, _ = l.(*channel)
	return s
}

// takes tells whether the session can take a call more. On a channel, calls that
// may ask run one after the other, so that it is certain whose a question is.
func (s *session) takes(asks bool) bool {
	return !s.retired && (s.channel == nil || !asks || s.asking == 0 && !s.channel.haunted())
}

// ended tells that the session's line is no more.
func (s *session) ended() bool { return s.channel != nil && s.channel.ended() }

// headers are those of every request in the session, in addition to more.
func (s *session) headers(more http.Header) http.Header {
	h := http.Header{}
	copyHeader(h, more)
	h.Set(wire.HeaderVersion, s.version)
	if s.id != "" {
		h.Set(wire.HeaderSession, s.id)
	}
	return h
}

// lost tells whether the server has refused the request because it does not
// know the session (any more): by 404, as the specification says, or by a 400
// that talks of it; or that the line has ended before it could be sent.
func (s *session) lost(a answer, err error) bool {
	if errors.Is(err, errNotSent) {
		return true
	}
	if r := unread(err); r != nil {
		return r.status == http.StatusNotFound && s.id != "" || r.status == http.StatusBadRequest && aboutSession(r.body)
	}
	if err != nil || a.Error == nil {
		return false
	}
	e := wire.ParseError(a.Error)
	switch a.status {
	case http.StatusNotFound:
		return s.id != "" && (!a.named || e.Code == codeSessionUnknown)
	case http.StatusBadRequest:
		return e.Code != wire.CodeInvalidParams && aboutSession(e.Message)
	}
	return false
}

// codeSessionUnknown is what the TypeScript SDK's servers use with 404.
const codeSessionUnknown = -32001

func aboutSession(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "session") || strings.Contains(text, "not initialized")
}
