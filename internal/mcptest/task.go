package mcptest

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"taskgate/wire"
)

// task is one that an upstream has made itself of a call (Tool.Task).
type task struct {
	id string
	x  *exchange // of the run; nobody reads its stream

	mu       sync.Mutex
	status   string
	message  string
	response wire.Message   // once it has ended
	pending  []Question     // modern: not answered yet
	answers  wire.Object    // modern
	queue    []wire.Message // legacy: questions for a stream of tasks/result
	changed  chan struct{}  // closed and replaced at every change
}

// taskTable holds the tasks of an upstream, by id.
type taskTable struct {
	mu  sync.Mutex
	all map[string]*task
}

// Tasks counts those that the upstream has made.
func (u *Upstream) Tasks() int {
	u.made.mu.Lock()
	defer u.made.mu.Unlock()
	return len(u.made.all)
}

func (ts *taskTable) add(x *exchange) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.all == nil {
		ts.all = map[string]*task{}
	}
	t := &task{id: fmt.Sprintf("their-%d", len(ts.all)+1), x: x, status: wire.StatusWorking, changed: make(chan struct{})}
	ts.all[t.id] = t
	return t
}

// find is the task that params name.
func (ts *taskTable) find(params wire.Object) (*task, *wire.Error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	id, _ := wire.String(params.Get("taskId"))
	if t := ts.all[id]; t != nil {
		return t, nil
	}
	return nil, wire.Errorf(wire.CodeInvalidParams, "Task not found")
}

func (u *Upstream) makesTasks() bool {
	return slices.ContainsFunc(u.tools, func(t Tool) bool { return t.Task })
}

// start runs a tool as a task.
func (u *Upstream) start(rec Received, params wire.Object, tool Tool, c *Call) (*task, *wire.Error) {
	x := newExchange(rec, params, "")
	if !u.keep(x) {
		return nil, wire.Errorf(wire.CodeInternal, "closing")
	}
	t := u.made.add(x)
	c.task = t
	u.run(x, tool, c, func(result wire.Raw, err *wire.Error) wire.Message {
		t.change(func() {
			if t.response = respond(rec.Message.ID, result, err); t.status != wire.StatusCancelled {
				t.status = wire.StatusCompleted
			}
			if err != nil {
				t.status = wire.StatusFailed
			}
		})
		return t.response
	})
	return t, nil
}

func (t *task) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *task) say(message string) { t.change(func() { t.message = message }) }

func (t *task) cancel(u *Upstream) {
	t.change(func() { t.status = wire.StatusCancelled })
	u.cancel(t.x)
	t.x.stop()
}

// until waits until f, called with t.mu held, holds; false when the run ends before.
func (t *task) until(f func() bool) bool {
	for {
		t.mu.Lock()
		ok, changed := f(), t.changed
		t.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-t.x.done:
			return false
		}
	}
}

// object is the task as its era shows it; poll and ttl are in milliseconds.
func (t *task) object(ttl, poll string) wire.Object {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := wire.Object{}.With("taskId", wire.Quote(t.id)).With("status", wire.Quote(t.status)).
		With("createdAt", wire.Raw(`"2026-01-01T00:00:00Z"`)).With("lastUpdatedAt", wire.Raw(`"2026-01-01T00:00:00Z"`)).
		With(ttl, wire.Raw(`60000`)).With(poll, wire.Raw(`20`))
	if t.message != "" {
		o = o.With("statusMessage", wire.Quote(t.message))
	}
	return o
}

// detailed is the DetailedTask of SEP-2663.
func (t *task) detailed() wire.Object {
	o := t.object("ttlMs", "pollIntervalMs")
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.status {
	case wire.StatusInputRequired:
		var requests wire.Object
		for _, q := range t.pending {
			requests = requests.With(q.Key, wire.Object{}.With("method", wire.Quote(q.Method)).With("params", q.Params).Bytes())
		}
		return o.With("inputRequests", requests.Bytes())
	case wire.StatusCompleted:
		return o.With("result", t.response.Result)
	case wire.StatusFailed:
		return o.With("error", t.response.Error)
	}
	return o
}

// askModern waits for tasks/update.
func (t *task) askModern(questions []Question) (map[string]wire.Raw, *wire.Error) {
	t.change(func() { t.pending, t.status = append(t.pending, questions...), wire.StatusInputRequired })
	got := map[string]wire.Raw{}
	answered := t.until(func() bool {
		for _, q := range questions {
			if got[q.Key] = t.answers.Get(q.Key); got[q.Key] == nil {
				return false
			}
		}
		return true
	})
	if !answered {
		return nil, wire.Errorf(wire.CodeInternal, "cancelled while waiting for input")
	}
	return got, nil
}

func (t *task) update(responses wire.Object) {
	t.change(func() {
		var rest []Question
		for _, q := range t.pending {
			if a := responses.Get(q.Key); a != nil {
				t.answers = t.answers.With(q.Key, a)
			} else {
				rest = append(rest, q)
			}
		}
		if t.pending = rest; len(rest) == 0 && t.status == wire.StatusInputRequired {
			t.status = wire.StatusWorking
		}
	})
}

// modernTasks answers tasks/*; ok is false for other methods.
func (e *modern) tasks(method string, params wire.Object, meta wire.Meta) (result wire.Raw, err *wire.Error, ok bool) {
	switch method {
	case "tasks/get", "tasks/update", "tasks/cancel":
	default:
		return nil, nil, false
	}
	if !e.u.makesTasks() || e.u.methods[method] != nil {
		return nil, nil, false
	}
	if !meta.Capabilities.DeclaresTasks() {
		return nil, wire.MissingCapability(wire.TasksRequired), true
	}
	t, err := e.u.made.find(params)
	if err != nil {
		return nil, err, true
	}
	switch method {
	case "tasks/get":
		return t.detailed().Bytes(), nil, true
	case "tasks/update":
		responses, _ := params.Object("inputResponses")
		t.update(responses)
	case "tasks/cancel":
		t.cancel(e.u)
	}
	return wire.Raw(`{}`), nil, true
}

// askLegacy puts the questions on the next stream of tasks/result.
func (t *task) askLegacy(s *session, questions []Question) (map[string]wire.Raw, *wire.Error) {
	waiting := make([]chan wire.Message, len(questions))
	t.change(func() {
		for i, q := range questions {
			id, answer := s.expect()
			waiting[i] = answer
			t.queue = append(t.queue, wire.Message{ID: wire.Raw(id), Method: q.Method, Params: q.Params})
		}
		t.status = wire.StatusInputRequired
	})
	got, err := s.collect(t.x, questions, waiting)
	t.change(func() { t.status = wire.StatusWorking })
	return got, err
}

// tasks answers tasks/* of 2025-11-25; ok is false for other methods.
func (e *legacy) tasks(w http.ResponseWriter, r *http.Request, rec Received, params wire.Object) (ok bool) {
	method := rec.Message.Method
	switch method {
	case "tasks/get", "tasks/result", "tasks/cancel":
	default:
		return false
	}
	if !e.u.makesTasks() || e.u.methods[method] != nil {
		return false
	}
	t, err := e.u.made.find(params)
	switch {
	case err != nil:
		e.respond(w, r, rec, nil, err)
	case method == "tasks/result":
		e.result(w, r, rec, t)
	case method == "tasks/cancel":
		t.cancel(e.u)
		fallthrough
	default:
		e.respond(w, r, rec, t.object("ttl", "pollInterval").Bytes(), nil)
	}
	return true
}

// result serves tasks/result: questions, and then what the call has returned.
func (e *legacy) result(w http.ResponseWriter, r *http.Request, rec Received, t *task) {
	x := newExchange(rec, nil, e.streamID())
	e.u.runs.Go(func() {
		defer x.stream.close()
		for ended := false; !ended; {
			if !t.until(func() bool { return len(t.queue) > 0 || t.response.ID != nil }) {
				return
			}
			t.change(func() {
				for _, m := range t.queue {
					x.stream.append(m)
				}
				if t.queue = nil; t.response.ID != nil {
					ended = true
					x.stream.append(wire.Message{ID: rec.Message.ID, Result: t.response.Result, Error: t.response.Error})
				}
			})
		}
	})
	_ = e.u.reply(r.Context(), w, x, alwaysOK) // a client that is gone needs no answer
}
