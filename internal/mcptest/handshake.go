package mcptest

import (
	"fmt"
	"net/http"
	"slices"

	"taskgate/wire"
)

// LossForm is how a legacy server says that it does not know a session. All
// three have been seen in real servers.
type LossForm int

// Loss forms.
const (
	Loss404JSON LossForm = iota // 404 with -32001
	Loss404Text                 // 404 with text
	Loss400                     // 400 with -32000
)

// Sessions counts the sessions that a legacy upstream keeps open.
func (u *Upstream) Sessions() int {
	e, ok := u.era.(*legacy)
	if !ok {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions)
}

// LoseSessions makes a legacy upstream forget its sessions, as a restart does.
// Calls run on and may still answer on their streams; CutStreams ends those.
func (u *Upstream) LoseSessions() {
	if e, ok := u.era.(*legacy); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		clear(e.sessions)
	}
}

// Broadcast sends a message on the GET stream of each session of a legacy
// upstream, where what comes back is in the ledger, or to those who listen to a
// modern one and have asked for it.
func (u *Upstream) Broadcast(m wire.Message) {
	switch e := u.era.(type) {
	case *legacy:
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, s := range e.sessions {
			s.standalone.append(m)
		}
	case *modern:
		e.listeners.tell(m)
	}
}

var legacyVersions = []string{"2025-03-26", "2025-06-18", wire.LegacyVersion}

func (e *legacy) initialize(w http.ResponseWriter, r *http.Request, rec Received) {
	params, err := rec.Message.ParamsObject()
	if err != nil {
		writeMessage(w, http.StatusBadRequest, wire.Failure(rec.Message.ID, err))
		return
	}
	version, _ := wire.String(params.Get("protocolVersion"))
	if !slices.Contains(legacyVersions, version) {
		version = wire.LegacyVersion
	}
	s := e.open(version, wire.ParseCapabilities(params.Get("capabilities")))
	if s.id != "" {
		w.Header().Set(wire.HeaderSession, s.id)
	}
	e.respond(w, r, rec, JSON(map[string]any{
		"protocolVersion": version,
		"capabilities":    e.u.capabilities(),
		"serverInfo":      map[string]string{"name": "mcptest-legacy", "version": "1"},
	}), nil)
}

// open makes a session; a stateless server has one for everybody.
func (e *legacy) open(version string, capabilities wire.Capabilities) *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := newSession(version, capabilities)
	if !e.u.Stateless {
		e.count++
		s.id = fmt.Sprintf("session-%d", e.count)
	}
	e.sessions[s.id] = s
	return s
}

// session finds the session of a request, or refuses it.
func (e *legacy) session(w http.ResponseWriter, r *http.Request) *session {
	id := r.Header.Get(wire.HeaderSession)
	e.mu.Lock()
	s := e.sessions[id]
	e.mu.Unlock()
	switch {
	case s == nil && e.u.Stateless:
		return e.open(wire.LegacyVersion, wire.Capabilities{})
	case s == nil && id == "":
		refuse(w, http.StatusBadRequest, -32000, "Bad Request: Mcp-Session-Id header is required")
	case s == nil:
		e.lost(w)
	case !e.u.Stateless && s.version >= "2025-06-18" && r.Header.Get(wire.HeaderVersion) != s.version:
		refuse(w, http.StatusBadRequest, -32000, "Bad Request: MCP-Protocol-Version must be "+s.version)
		return nil
	}
	return s
}

func (e *legacy) lost(w http.ResponseWriter) {
	switch e.u.Loss {
	case Loss404Text:
		http.Error(w, "session not found", http.StatusNotFound)
	case Loss400:
		refuse(w, http.StatusBadRequest, -32000, "Bad Request: No valid session ID provided")
	default:
		refuse(w, http.StatusNotFound, -32001, "Session not found")
	}
}

func (e *legacy) delete(w http.ResponseWriter, r *http.Request) {
	s := e.session(w, r)
	if s == nil {
		return
	}
	e.mu.Lock()
	delete(e.sessions, s.id)
	e.mu.Unlock()
	for _, x := range s.endAll() {
		x.stop()
		x.stream.close()
	}
	w.WriteHeader(http.StatusNoContent)
}
