package mcptest

import (
	"net/http"

	"taskgate/wire"
)

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
