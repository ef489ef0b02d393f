package mcptest

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"taskgate/wire"
)

// legacy serves 2025-03-26 to 2025-11-25.
type legacy struct {
	u *Upstream

	mu       sync.Mutex
	sessions map[string]*session
	count    int // of all sessions, and of streams
}

func newLegacy(u *Upstream) *legacy { return &legacy{u: u, sessions: map[string]*session{}} }

func (e *legacy) serve(w http.ResponseWriter, r *http.Request, rec Received) {
	switch r.Method {
	case http.MethodPost:
		e.post(w, r, rec)
	case http.MethodGet:
		e.get(w, r)
	case http.MethodDelete:
		e.delete(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (e *legacy) post(w http.ResponseWriter, r *http.Request, rec Received) {
	m, err := wire.Decode(rec.Body)
	switch {
	case err != nil:
		writeMessage(w, http.StatusBadRequest, wire.Failure(m.ID, err))
	case !accepts(r.Header, "application/json") || !accepts(r.Header, "text/event-stream"):
		refuse(w, http.StatusNotAcceptable, -32000, "Not Acceptable: Client must accept both application/json and text/event-stream")
	case !isJSON(r.Header):
		refuse(w, http.StatusUnsupportedMediaType, -32000, "Unsupported Media Type: Content-Type must be application/json")
	case m.Method == "initialize":
		e.initialize(w, r, rec)
	default:
		if s := e.session(w, r); s != nil {
			e.take(w, r, rec, s)
		}
	}
}

func accepts(h http.Header, mediaType string) bool {
	return strings.Contains(strings.Join(h.Values("Accept"), ","), mediaType)
}

func isJSON(h http.Header) bool {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && t == "application/json"
}

// refuse answers with an error that belongs to no request.
func refuse(w http.ResponseWriter, status, code int, message string) {
	writeMessage(w, status, wire.Failure(nil, wire.Errorf(code, "%s", message)))
}

// take is for what comes within a session.
func (e *legacy) take(w http.ResponseWriter, r *http.Request, rec Received, s *session) {
	m := rec.Message
	switch {
	case m.IsResponse():
		s.deliver(m)
		w.WriteHeader(http.StatusAccepted)
	case m.IsNotification():
		e.notified(s, m)
		w.WriteHeader(http.StatusAccepted)
	case !s.isReady() && m.Method != "ping" && !e.u.Stateless:
		writeMessage(w, http.StatusBadRequest, wire.Failure(m.ID, wire.Errorf(wire.CodeInvalidRequest, "notifications/initialized has not come yet")))
	case m.Method == "ping":
		e.respond(w, r, rec, wire.Raw(`{}`), nil)
	default:
		e.request(w, r, rec, s)
	}
}

func (e *legacy) notified(s *session, m wire.Message) {
	switch m.Method {
	case "notifications/initialized":
		s.setReady()
	case "notifications/cancelled":
		params, _ := m.ParamsObject()
		if x := s.call(params.Get("requestId")); x != nil {
			e.u.cancel(x)
		}
	}
}

func (e *legacy) request(w http.ResponseWriter, r *http.Request, rec Received, s *session) {
	params, err := rec.Message.ParamsObject()
	if err == nil && e.tasks(w, r, rec, params) {
		return
	}
	if err == nil && rec.Message.Method == "tools/call" {
		if err = e.call(w, r, rec, s, params); err == nil {
			return
		}
	}
	var result wire.Raw
	if err == nil {
		result, err = e.u.answer(rec.Message.Method, params)
	}
	e.respond(w, r, rec, result, err)
}

// respond answers at once, in the way the server answers everything.
func (e *legacy) respond(w http.ResponseWriter, r *http.Request, rec Received, result wire.Raw, err *wire.Error) {
	x := newExchange(rec, nil, e.streamID())
	x.stream.append(respond(rec.Message.ID, result, err))
	x.stream.close()
	_ = e.u.reply(r.Context(), w, x, alwaysOK) // a client that is gone needs no answer
}

func alwaysOK(wire.Message) int { return http.StatusOK }

func (e *legacy) streamID() string {
	if !e.u.Resumable {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	return "stream-" + strconv.Itoa(e.count)
}

// call runs a tool. A client that goes away does not end it in this era.
func (e *legacy) call(w http.ResponseWriter, r *http.Request, rec Received, s *session, params wire.Object) *wire.Error {
	tool, err := e.u.tool(params.Get("name"))
	if err != nil {
		return err
	}
	if tool.Task {
		return e.callTask(w, r, rec, s, params, tool)
	}
	x := newExchange(rec, params, e.streamID())
	if !e.u.keep(x) {
		return wire.Errorf(wire.CodeInternal, "closing")
	}
	if err := s.begin(x); err != nil {
		e.u.forget(x)
		return err
	}
	arguments, _ := params.Object("arguments")
	c := &Call{Tool: tool.Name, Params: params, Arguments: arguments, Capabilities: s.capabilities}
	c.ask = func(questions []Question) (map[string]wire.Raw, *wire.Error) {
		if e.u.JSON || e.u.Stateless {
			return nil, wire.Errorf(wire.CodeInternal, "this server has no way to ask")
		}
		if !e.u.Insistent {
			if err := s.declared(questions); err != nil {
				return nil, err
			}
		}
		return s.ask(x, questions)
	}
	e.u.run(x, tool, c, func(result wire.Raw, err *wire.Error) wire.Message {
		s.end(x)
		return respond(rec.Message.ID, result, err)
	})
	_ = e.u.reply(r.Context(), w, x, alwaysOK)
	return nil
}

// callTask makes a task of a call that asks for one.
func (e *legacy) callTask(w http.ResponseWriter, r *http.Request, rec Received, s *session, params wire.Object, tool Tool) *wire.Error {
	if _, ok := params.Object("task"); !ok {
		return wire.Errorf(wire.CodeMethodNotFound, "Tool %s requires task augmentation", tool.Name)
	}
	arguments, _ := params.Object("arguments")
	c := &Call{Tool: tool.Name, Params: params, Arguments: arguments, Capabilities: s.capabilities}
	c.ask = func(questions []Question) (map[string]wire.Raw, *wire.Error) { return c.task.askLegacy(s, questions) }
	t, err := e.u.start(rec, params, tool, c)
	if err != nil {
		return err
	}
	e.respond(w, r, rec, wire.Object{}.With("task", t.object("ttl", "pollInterval").Bytes()).Bytes(), nil)
	return nil
}

// get serves the stream that belongs to no request, or resumes a lost one.
func (e *legacy) get(w http.ResponseWriter, r *http.Request) {
	s := e.session(w, r)
	if s == nil {
		return
	}
	last := r.Header.Get(wire.HeaderLastEvent)
	if last == "" {
		s.standalone.resume()
		_ = s.standalone.serve(r.Context(), w, s.standalone.length()) // what was said before is gone
		return
	}
	id, n, _ := strings.Cut(last, "/")
	from, err := strconv.Atoi(n)
	stream := s.stream(id)
	if err != nil || stream == nil {
		refuse(w, http.StatusBadRequest, -32000, "Bad Request: unknown Last-Event-ID")
		return
	}
	stream.resume()
	_ = stream.serve(r.Context(), w, from+1)
}
