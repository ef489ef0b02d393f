package legacyfront

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"taskgate/proxy"
	"taskgate/wire"
)

// versions are the revisions that open with initialize and are spoken here, the
// newest last.
var versions = []string{"2025-03-26", "2025-06-18", wire.LegacyVersion}

// agreed is what initialize has agreed on; the session id is this, sealed.
type agreed struct {
	ID           string   `json:"id"` // names the notes of the session
	Version      string   `json:"version"`
	ClientInfo   wire.Raw `json:"clientInfo"`
	Capabilities wire.Raw `json:"capabilities"`
	Opened       int64    `json:"opened"` // Unix time in seconds
}

// session is one that a request belongs to.
type session struct {
	agreed
	state state
}

// state is what changes in a session; it is a note, which is there only once
// something has changed.
type state struct {
	Ended    bool     `json:"ended,omitempty"`
	LogLevel string   `json:"logLevel,omitempty"`
	URIs     []string `json:"uris,omitempty"` // resources that are subscribed to, sorted
	// Listener is the stream that has the floor, Tasks are those that are followed on it.
	Listener string   `json:"listener,omitempty"`
	Tasks    []string `json:"tasks,omitempty"`
}

func (s *session) stateKey() string { return "session-" + s.ID }

func (f *Front) left(s *session) time.Duration {
	return time.Unix(s.Opened, 0).Add(f.opts.SessionLife).Sub(f.opts.Now())
}

// session finds the session of a request. That of another caller or endpoint is
// as unknown as one that never was.
func (f *Front) session(req *http.Request, v *proxy.Visit) (*session, error) {
	id := req.Header.Get(wire.HeaderSession)
	if id == "" {
		return nil, badRequest("header %s is missing; open a session with initialize", wire.HeaderSession)
	}
	version := req.Header.Get(wire.HeaderVersion) // may be missing: the session knows
	if version != "" && !slices.Contains(versions, version) {
		return nil, badRequest("header %s has %q; sessions speak %s", wire.HeaderVersion, version, versions)
	}
	ctx, cancel := f.briefly(req.Context())
	defer cancel()
	s := &session{}
	known, err := f.sealer.open(ctx, id, place(v), &s.agreed)
	if err != nil {
		return nil, err
	}
	if !known || f.left(s) <= 0 {
		return nil, errNoSession
	}
	s.state = f.state(ctx, s)
	if s.state.Ended {
		return nil, errNoSession
	}
	return s, nil
}

var errNoSession = &refusal{http.StatusNotFound, wire.Errorf(-32001, "Session not found: it has ended, or it is not of this caller and endpoint; send initialize again")}

func badRequest(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, wire.Errorf(wire.CodeInvalidRequest, "Bad request: "+format, args...)}
}

// place is where, and by whom, a session id can be used.
func place(v *proxy.Visit) string { return v.Path() + "\n" + v.Principal() }

// state reads the note. While the store is away a session goes on as it began:
// its id says that it is one.
func (f *Front) state(ctx context.Context, s *session) state {
	var st state
	text, err := f.store.Note(ctx, s.stateKey())
	if err == nil && text != nil {
		err = json.Unmarshal(text, &st)
	}
	if err != nil {
		f.opts.Log.Warn("the state of a session is not known", zap.Error(err))
	}
	return st
}

// change changes the session's state at all replicas.
func (f *Front) change(ctx context.Context, s *session, change func(*state)) error {
	ctx, cancel := f.briefly(ctx)
	defer cancel()
	_, err := f.store.ChangeNote(ctx, s.stateKey(), max(f.left(s), time.Second), func(old []byte) ([]byte, error) {
		return changed(old, change)
	})
	return err
}

// changed is a session's state after a change.
func changed(old []byte, change func(*state)) ([]byte, error) {
	var st state
	if old != nil {
		if err := json.Unmarshal(old, &st); err != nil {
			return nil, err
		}
	}
	change(&st)
	return json.Marshal(st)
}

// end is DELETE: what runs in the session ends with it.
func (f *Front) end(w http.ResponseWriter, req *http.Request, s *session) {
	if err := f.change(req.Context(), s, func(st *state) { st.Ended = true }); err != nil {
		refuse(w, nil, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
