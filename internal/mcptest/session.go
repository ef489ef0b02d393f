package mcptest

import (
	"strconv"
	"sync"

	"taskgate/wire"
)

// session is what a legacy server remembers of one client.
type session struct {
	id           string
	version      string
	capabilities wire.Capabilities
	standalone   *stream // of the GET that belongs to no request

	mu      sync.Mutex
	ready   bool
	calls   map[string]*exchange // running, by the id of the request
	streams map[string]*stream   // all that can be resumed
	asked   int
	pending map[string]chan wire.Message // questions, by our id
}

func newSession(version string, capabilities wire.Capabilities) *session {
	return &session{
		version: version, capabilities: capabilities, standalone: newStream(""),
		calls: map[string]*exchange{}, streams: map[string]*stream{}, pending: map[string]chan wire.Message{},
	}
}

func (s *session) isReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

func (s *session) setReady() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
}

// begin refuses an id that is in use: a client that reuses ids would get the
// wrong answers.
func (s *session) begin(x *exchange) *wire.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := string(x.request.ID)
	if s.calls[id] != nil {
		return wire.Errorf(wire.CodeInvalidRequest, "request id %s is in use", id)
	}
	s.calls[id] = x
	if x.stream.id != "" {
		s.streams[x.stream.id] = x.stream
	}
	return nil
}

func (s *session) end(x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, string(x.request.ID))
}

func (s *session) endAll() []*exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standalone.close()
	var list []*exchange
	for _, x := range s.calls {
		list = append(list, x)
	}
	return list
}

func (s *session) call(id wire.Raw) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[string(id)]
}

func (s *session) stream(id string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[id]
}

// declared tells whether the client has said that it can answer.
func (s *session) declared(questions []Question) *wire.Error {
	for _, q := range questions {
		if s.capabilities.Answers(q.Method, q.Params) != nil {
			return wire.Errorf(wire.CodeInvalidRequest, "Client does not support %s", q.Method)
		}
	}
	return nil
}

// ask sends all questions on the call's stream and waits for all answers.
func (s *session) ask(x *exchange, questions []Question) (map[string]wire.Raw, *wire.Error) {
	waiting := make([]chan wire.Message, len(questions))
	for i, q := range questions {
		id, answer := s.expect()
		defer s.unexpect(id)
		waiting[i] = answer
		x.stream.append(wire.Message{ID: wire.Raw(id), Method: q.Method, Params: q.Params})
	}
	return s.collect(x, questions, waiting)
}

// collect waits for all answers.
func (s *session) collect(x *exchange, questions []Question, waiting []chan wire.Message) (map[string]wire.Raw, *wire.Error) {
	got := map[string]wire.Raw{}
	for i, q := range questions {
		select {
		case m := <-waiting[i]:
			if m.Error != nil {
				return nil, wire.ParseError(m.Error)
			}
			got[q.Key] = m.Result
		case <-x.done:
			return nil, wire.Errorf(wire.CodeInternal, "cancelled while waiting for input")
		}
	}
	return got, nil
}

// expect takes the next id: small integers from 0, as the SDKs do, so that ids
// of different sessions collide.
func (s *session) expect() (id string, answer chan wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = strconv.Itoa(s.asked)
	s.asked++
	answer = make(chan wire.Message, 1)
	s.pending[id] = answer
	return id, answer
}

func (s *session) unexpect(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
}

// deliver hands an answer to who asked; an unknown id is nobody's.
func (s *session) deliver(m wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer := s.pending[string(m.ID)]; answer != nil {
		answer <- m
		delete(s.pending, string(m.ID))
	}
}
