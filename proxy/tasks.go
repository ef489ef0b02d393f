package proxy

import (
	"context"
	"errors"

	"taskgate/taskroute"
	"taskgate/wire"
)

var acknowledged = wire.Raw(`{"resultType":"complete"}`)

// taskID gates tasks/*: the extension must be declared on this very request,
// before any id is looked at (SEP-2663, Capability Negotiation).
func taskID(x *exchange) (string, error) {
	if !x.meta.Capabilities.DeclaresTasks() {
		return "", wire.MissingCapability(wire.TasksRequired)
	}
	id, ok := wire.String(x.params.Get("taskId"))
	if !ok {
		return "", wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.taskId is missing or no string")
	}
	x.traceTask(id)
	return id, nil
}

func (h *Handler) getTask(ctx context.Context, x *exchange, _ *responder) (wire.Raw, error) {
	id, err := taskID(x)
	if err != nil {
		return nil, err
	}
	rec, err := h.pollTask(ctx, x, id)
	if err != nil {
		return nil, err
	}
	return rec.Wire().GetResult(), nil
}

// pollTask reads a task, as often as its client may.
func (h *Handler) pollTask(ctx context.Context, x *exchange, id string) (*taskroute.Record, error) {
	if err := h.quotas.poll(x.owner(), id, h.opts.Now()); err != nil {
		return nil, err
	}
	rec, err := h.runner.Get(ctx, x.owner(), id)
	if err != nil {
		return nil, storeError(err)
	}
	h.quotas.polled(rec)
	return rec, nil
}

func (h *Handler) updateTask(ctx context.Context, x *exchange, _ *responder) (wire.Raw, error) {
	id, err := taskID(x)
	if err != nil {
		return nil, err
	}
	return acknowledged, h.answerTask(ctx, x, id)
}

// answerTask takes the answers to questions of a task.
func (h *Handler) answerTask(ctx context.Context, x *exchange, id string) error {
	responses, err := readResponses(x.params)
	if err != nil {
		return err
	}
	return storeError(h.runner.Update(ctx, x.owner(), id, responses))
}

// readResponses wants the shape that all results have which can answer an input
// request (basic/patterns/mrtr, Error Handling).
func readResponses(params wire.Object) (wire.Object, error) {
	responses, err := wire.ParseObject(params.Get("inputResponses"))
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.inputResponses is missing or no object")
	}
	for _, r := range responses {
		if _, ok := responses.Object(r.Name); !ok {
			return nil, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.inputResponses[%q] is no object", r.Name)
		}
	}
	return responses, nil
}

func (h *Handler) cancelTask(ctx context.Context, x *exchange, _ *responder) (wire.Raw, error) {
	id, err := taskID(x)
	if err != nil {
		return nil, err
	}
	return acknowledged, storeError(h.runner.Cancel(ctx, x.owner(), id))
}

// listTasks answers a front for another protocol, which asks on behalf of its
// client: this revision has no such method.
func (h *Handler) listTasks(ctx context.Context, x *exchange, out *responder) (wire.Raw, error) {
	if !x.asks {
		return notFound(ctx, x, out)
	}
	cursor, ok := wire.String(x.params.Get("cursor"))
	if !ok && x.params.Get("cursor") != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.cursor is no string")
	}
	records, next, err := h.runner.List(ctx, x.owner(), cursor)
	if err != nil {
		return nil, storeError(err)
	}
	tasks := make([]wire.Raw, len(records))
	for i, rec := range records {
		tasks[i] = rec.Wire().Summary()
	}
	result := wire.Object{}.With("resultType", wire.Quote(wire.ResultComplete)).With("tasks", wire.JoinArray(tasks))
	if next != "" {
		result = result.With("nextCursor", wire.Quote(next))
	}
	return result.Bytes(), nil
}

// storeError marks what is neither the client's mistake nor its leaving.
func storeError(err error) error {
	if err == nil || isAboutTask(err) || errors.Is(err, taskroute.ErrCursor) {
		return err
	}
	return &storeFailure{err}
}

// isAboutTask tells that it is the task which cannot be had, and not the store.
func isAboutTask(err error) bool {
	return errors.Is(err, taskroute.ErrMalformed) || errors.Is(err, taskroute.ErrNotFound) || errors.Is(err, taskroute.ErrExpired) ||
		errors.Is(err, taskroute.ErrUnreadable)
}
