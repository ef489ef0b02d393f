package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"taskgate/wire"
)

// server is the least that a server of 2025-11-25 needs: it opens sessions, and
// answers each call on a stream of its own, where it also asks. An SDK does the same
// at the price of a fourteenth of the whole program.
type server struct {
	tools []tool

	mu       sync.Mutex
	sessions map[string]*session
}

// tool is one of the server's. All arguments are strings.
type tool struct {
	name, description, argument string
	run                         func(context.Context, *call) (string, error)
}

// maxBody is far more than any message to this server needs.
const maxBody = 1 << 20

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(wire.HeaderSession)
	switch r.Method {
	case http.MethodPost:
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			return // the client is gone, or was told
		}
		m, rpc := wire.Decode(body)
		if rpc != nil {
			reply400(w, m, rpc)
			return
		}
		s.take(w, r, id, m)
	case http.MethodDelete:
		s.end(id)
		w.WriteHeader(http.StatusNoContent)
	default: // nothing is ever said outside of a call
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// take is for one message.
func (s *server) take(w http.ResponseWriter, r *http.Request, id string, m wire.Message) {
	open := s.session(id)
	switch {
	case m.Method == "initialize":
		w.Header().Set(wire.HeaderSession, s.begin(m))
		answer(w, m, object{
			"protocolVersion": wire.LegacyVersion, "capabilities": object{"tools": object{}},
			"serverInfo": object{"name": "sample", "version": "1.0.0"},
		})
	case id == "":
		reply400(w, m, wire.Errorf(wire.CodeInvalidRequest, "a session begins with initialize"))
	case open == nil:
		send(w, http.StatusNotFound, wire.Failure(m.ID, wire.Errorf(wire.CodeInvalidRequest, "no such session")))
	case !m.IsRequest():
		open.told(m)
		w.WriteHeader(http.StatusAccepted)
	default:
		s.request(w, r, open, m)
	}
}

func (s *server) begin(m wire.Message) (id string) {
	params, _ := m.ParamsObject()
	capabilities, _ := params.Object("capabilities")
	s.mu.Lock()
	defer s.mu.Unlock()
	id = rand.Text()
	s.sessions[id] = &session{asks: capabilities.Get("elicitation") != nil, calls: map[string]context.CancelFunc{}, asked: map[string]chan wire.Message{}}
	return id
}

func (s *server) session(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

func (s *server) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}

func (s *server) request(w http.ResponseWriter, r *http.Request, open *session, m wire.Message) {
	params, rpc := m.ParamsObject()
	switch {
	case rpc != nil:
		reply400(w, m, rpc)
	case m.Method == "ping":
		answer(w, m, object{})
	case m.Method == "tools/list":
		answer(w, m, object{"tools": s.list()})
	case m.Method == "tools/call":
		s.call(w, r, open, m, params)
	default:
		send(w, http.StatusOK, wire.Failure(m.ID, wire.Errorf(wire.CodeMethodNotFound, "%s is not among the methods of this server", m.Method)))
	}
}

func (s *server) list() (list []object) {
	for _, t := range s.tools {
		list = append(list, object{"name": t.name, "description": t.description, "inputSchema": object{
			"type": "object", "properties": object{t.argument: object{"type": "string"}}, "required": []string{t.argument},
		}})
	}
	return list
}

// call runs a tool in the goroutine of its request.
func (s *server) call(w http.ResponseWriter, r *http.Request, open *session, m wire.Message, params wire.Object) {
	name, _ := wire.String(params.Get("name"))
	for _, t := range s.tools {
		if t.name == name {
			w.Header().Set("Content-Type", "text/event-stream")
			ctx, end := open.begin(r.Context(), m.ID)
			defer end()
			_ = newCall(w, open, params, t.argument).run(ctx, m.ID, t) // a client that is gone needs no answer
			return
		}
	}
	send(w, http.StatusOK, wire.Failure(m.ID, wire.Errorf(wire.CodeInvalidParams, "no tool %q", name)))
}

func reply400(w http.ResponseWriter, m wire.Message, rpc *wire.Error) {
	send(w, http.StatusBadRequest, wire.Failure(m.ID, rpc))
}

func answer(w http.ResponseWriter, m wire.Message, result object) {
	send(w, http.StatusOK, wire.Result(m.ID, result.raw()))
}

func send(w http.ResponseWriter, status int, m wire.Message) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(m.Bytes()) // a client that is gone needs no answer
}

// raw is the object as it goes over the wire.
func (o object) raw() wire.Raw {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err) // an object of this package holds only what JSON can hold
	}
	return raw
}
