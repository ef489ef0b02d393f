package upstream

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"taskgate/wire"
)

// session is what initialize has agreed on.
type session struct {
	key     sessionKey
	id      string   // Mcp-Session-Id; "" when the server gave none
	version string   // negotiated protocol version
	init    wire.Raw // the InitializeResult
	tools   toolList
	claims  claims
	level   logLevel
	begun   atomic.Int64 // all calls so far

	// guarded by pool.mu
	calls     int
	idleSince time.Time
	header    http.Header  // of the last call, for the DELETE
	client    *Credentials // likewise
}

// sessionKey says who may share a session: callers of one principal that
// announce the same capabilities (contract 9).
type sessionKey struct {
	principal    string
	capabilities [sha256.Size]byte
}

func keyOf(r Request) sessionKey {
	return sessionKey{r.Principal, sha256.Sum256(r.Capabilities.Interactive())}
}

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
// that talks of it.
func (s *session) lost(a answer, err error) bool {
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
