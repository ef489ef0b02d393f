package mcptest

import (
	"taskgate/wire"
)

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
