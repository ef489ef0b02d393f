package mcptest

import (
	"fmt"
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
