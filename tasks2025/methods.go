package tasks2025

import (
	"context"
	"sync"

	"taskgate/legacyfront"
	"taskgate/wire"
)

// byID are the params of a request about the task that c is about.
func byID(c *legacyfront.Call) wire.Object {
	o := wire.Object{}
	if id := c.Params().Get("taskId"); id != nil {
		o = o.With("taskId", id)
	}
	return o
}

// read is the task as it is now, as SEP-2663 has it; failed is the answer when
// there is none.
func read(ctx context.Context, c *legacyfront.Call) (task wire.Object, failed *legacyfront.Answer) {
	a := c.Ask(ctx, "tasks/get", byID(c), nil)
	if a.Error != nil {
		return nil, &a
	}
	task, _ = wire.ParseObject(a.Result) // the gateway's own
	return task, nil
}

func get(ctx context.Context, c *legacyfront.Call) legacyfront.Answer {
	task, failed := read(ctx, c)
	if failed != nil {
		return *failed
	}
	return legacyfront.Answer{Result: flat(task).Bytes()}
}

// list answers with a page of the tasks that are the caller's own.
func list(ctx context.Context, c *legacyfront.Call) legacyfront.Answer {
	params := wire.Object{}
	if cursor := c.Params().Get("cursor"); cursor != nil {
		params = params.With("cursor", cursor)
	}
	a := c.Ask(ctx, "tasks/list", params, nil)
	if a.Error != nil {
		return a
	}
	page, _ := wire.ParseObject(a.Result) // the gateway's own
	tasks, _ := wire.ParseArray(page.Get("tasks"))
	for i, raw := range tasks {
		task, _ := wire.ParseObject(raw)
		tasks[i] = flat(task).Bytes()
	}
	a.Result = page.With("tasks", wire.JoinArray(tasks)).Bytes()
	return a
}

// cancel answers with the task once it has ended, as this revision wants it.
func cancel(ctx context.Context, c *legacyfront.Call) legacyfront.Answer {
	task, failed := read(ctx, c)
	if failed != nil {
		return *failed
	}
	if status := statusOf(task); isTerminal(status) {
		return legacyfront.Fail(wire.Errorf(wire.CodeInvalidParams, "Invalid params: the task cannot be cancelled: it is %s", status))
	}
	if a := c.Ask(ctx, "tasks/cancel", byID(c), nil); a.Error != nil {
		return a
	}
	if a := follow(ctx, c, nil, func(task wire.Object) bool { return isTerminal(statusOf(task)) }); a.Error != nil {
		return a
	}
	return get(ctx, c)
}

// follow sees every state of the task until it has seen enough, the task has ended
// or ctx ends. alive is called while nothing changes; nil: nobody needs that.
func follow(ctx context.Context, c *legacyfront.Call, alive func(), enough func(task wire.Object) bool) legacyfront.Answer {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ids := append(append(wire.Raw(`{"taskIds":[`), c.Params().Get("taskId")...), `]}`...)
	a := c.Ask(ctx, "subscriptions/listen", wire.Object{}.With("notifications", ids), func(msg wire.Message) {
		task, _ := wire.ParseObject(msg.Params) // the gateway's own
		switch {
		case msg.Method == "notifications/tasks" && enough(task):
			stop()
		case msg.Method == "" && alive != nil:
			alive()
		}
	})
	if ctx.Err() != nil { // by enough; or by the client, who wants nothing more
		return legacyfront.Answer{}
	}
	return a
}

// result waits for the end of the task and answers with what the call would have
// been answered with. Meanwhile it tells of each state, and puts the task's
// questions to the client.
func result(ctx context.Context, c *legacyfront.Call) legacyfront.Answer {
	task, failed := read(ctx, c)
	if failed != nil {
		return *failed
	}
	if !isTerminal(statusOf(task)) {
		if a := attend(ctx, c); a.Error != nil {
			return a
		}
		if task, failed = read(ctx, c); failed != nil {
			return *failed
		}
	}
	if !isTerminal(statusOf(task)) { // the gateway goes down, or the caller's credential has ended
		return legacyfront.Fail(wire.Errorf(wire.CodeInternal, "The gateway cannot wait for the task any longer; ask again").
			WithData(map[string]any{"retriable": true}))
	}
	return outcome(c, task)
}

// attend is with a task until it has ended.
func attend(ctx context.Context, c *legacyfront.Call) legacyfront.Answer {
	ctx, stop := context.WithCancelCause(ctx)
	q := &questions{ctx: ctx, fail: stop, c: c, asked: map[string]bool{}}
	a := follow(ctx, c, c.Alive, func(task wire.Object) bool {
		note, ended := status(task)
		c.Say(note.Method, note.Params)
		pending, _ := task.Object("inputRequests")
		q.ask(pending)
		return ended
	})
	cause := context.Cause(ctx)
	stop(nil)
	q.asking.Wait()
	if cause != nil {
		return legacyfront.Fail(wire.Errorf(wire.CodeInternal, "The request was given up: %v", cause))
	}
	return a
}

// questions are those of a task that the client was asked. Each is asked once, and
// answered as soon as the client has, however many are out at the same time.
type questions struct {
	ctx    context.Context // until the task has ended
	fail   context.CancelCauseFunc
	c      *legacyfront.Call
	asked  map[string]bool // by key
	asking sync.WaitGroup
}

func (q *questions) ask(pending wire.Object) {
	for _, r := range pending {
		if !q.asked[r.Name] {
			q.asked[r.Name] = true
			q.asking.Go(func() { q.relay(wire.Object{}.With(r.Name, r.Value)) })
		}
	}
}

// relay has the client answer one question. An answer that comes too late, because
// somebody else has given one, is ignored by the task.
func (q *questions) relay(request wire.Object) {
	answers, err := q.c.Question(q.ctx, request, wire.Object{}.With(wire.MetaRelatedTask, related(q.c)))
	if err == nil {
		a := q.c.Ask(q.ctx, "tasks/update", byID(q.c).With("inputResponses", answers.Bytes()), nil)
		if a.Error != nil {
			err = wire.ParseError(a.Error)
		}
	}
	if err != nil {
		q.fail(err)
	}
}

func related(c *legacyfront.Call) wire.Raw { return byID(c).Bytes() }

// outcome is that of an ended task.
func outcome(c *legacyfront.Call, task wire.Object) legacyfront.Answer {
	switch statusOf(task) {
	case wire.StatusFailed:
		return legacyfront.Answer{Error: task.Get("error")}
	case wire.StatusCancelled:
		return legacyfront.Fail(wire.Errorf(wire.CodeInvalidParams, "Invalid params: the task was cancelled and has no result"))
	}
	result, err := wire.ParseObject(task.Get("result"))
	if err != nil {
		return legacyfront.Fail(wire.Errorf(wire.CodeInternal, "The result of the task is no object"))
	}
	meta, _ := result.Object("_meta")
	return legacyfront.Answer{Result: result.With("_meta", meta.With(wire.MetaRelatedTask, related(c)).Bytes()).Bytes()}
}
