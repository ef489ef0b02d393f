package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"taskgate/wire"
)

// session is what the server remembers of one client.
type session struct {
	asks bool // the client can be asked

	mu    sync.Mutex
	calls map[string]context.CancelFunc // running, by the id of the request
	asked map[string]chan wire.Message  // questions without an answer, by their id
	count int                           // of all questions
}

// begin is the time that a call has: until it is cancelled, or end is called.
func (s *session) begin(ctx context.Context, id wire.Raw) (_ context.Context, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	s.calls[string(id)] = cancel
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, string(id))
		cancel()
	}
}

// told is for messages that want no answer.
func (s *session) told(m wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer := s.asked[string(m.ID)]; m.IsResponse() && answer != nil {
		delete(s.asked, string(m.ID))
		answer <- m
	}
	if m.Method == "notifications/cancelled" {
		params, _ := m.ParamsObject()
		if cancel := s.calls[string(params.Get("requestId"))]; cancel != nil {
			cancel()
		}
	}
}

// expect is the id of the next question, and where its answer comes.
func (s *session) expect() (id string, answer <-chan wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	id = strconv.Itoa(s.count)
	c := make(chan wire.Message, 1)
	s.asked[id] = c
	return id, c
}

// call is one tools/call that runs.
type call struct {
	out      http.ResponseWriter
	session  *session
	argument string
	token    wire.Raw // for progress; nil: the client does not want to hear of it
}

func newCall(w http.ResponseWriter, open *session, params wire.Object, argument string) *call {
	arguments, _ := params.Object("arguments")
	value, _ := wire.String(arguments.Get(argument))
	meta, _ := params.Object("_meta")
	return &call{out: w, session: open, argument: value, token: meta.Get("progressToken")}
}

// run runs the tool to its end and sends what has come of it.
func (c *call) run(ctx context.Context, id wire.Raw, t tool) error {
	text, err := t.run(ctx, c)
	if err != nil {
		text = err.Error()
	}
	result := object{"content": []object{{"type": "text", "text": text}}, "isError": err != nil}
	return c.send(wire.Result(id, result.raw()))
}

// send writes a message on the call's stream.
func (c *call) send(m wire.Message) error {
	if _, err := c.out.Write(wire.AppendEvent(nil, m.Bytes())); err != nil {
		return err
	}
	return http.NewResponseController(c.out).Flush()
}

func (c *call) progress(done, total int, message string) error {
	if c.token == nil {
		return nil
	}
	params := object{"progressToken": c.token, "progress": done, "total": total, "message": message}
	return c.send(wire.Message{Method: "notifications/progress", Params: params.raw()})
}

// ask asks in the middle of the call and waits for the answer.
func (c *call) ask(ctx context.Context, message string, schema object) (action string, content map[string]any, err error) {
	id, answer := c.session.expect()
	params := object{"mode": "form", "message": message, "requestedSchema": schema}
	if err := c.send(wire.Message{ID: wire.Raw(id), Method: "elicitation/create", Params: params.raw()}); err != nil {
		return "", nil, err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return "", nil, wire.ParseError(m.Error)
		}
		var result struct {
			Action  string         `json:"action"`
			Content map[string]any `json:"content"`
		}
		err := json.Unmarshal(m.Result, &result)
		return result.Action, result.Content, err
	case <-ctx.Done():
		return "", nil, context.Cause(ctx)
	}
}
