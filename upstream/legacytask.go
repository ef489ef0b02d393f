package upstream

import (
	"context"
	"sync"
	"time"

	"taskgate/wire"
)

// taskTTL is for how long a server is asked to keep a task: longer than anybody
// waits for it, because it cannot be asked for again.
const taskTTL = 24 * time.Hour

// withTask asks for a task.
func withTask(params wire.Object) wire.Object {
	return params.With("task", wire.Object{}.With("ttl", number(uint64(taskTTL.Milliseconds()))).Bytes())
}

// createdTask reads a CreateTaskResult. A server that has not made a task has
// answered the call.
func createdTask(result wire.Raw) (taskState, bool) {
	o, _ := wire.ParseObject(result) // none for an error
	task, ok := o.Object("task")
	if !ok {
		return taskState{}, false
	}
	return parseTask(task, "pollInterval")
}

// legacyTask is a task of 2025-11-25. Its questions come, as requests, on the
// stream of tasks/result, which lasts until the task has ended.
type legacyTask struct {
	conversation *conversation
	id           string
	end          chan ending // capacity 1

	mu   sync.Mutex
	open bool // tasks/result is under way
}

// followTask goes on with the task that the call has made.
func (c *conversation) followTask(ctx context.Context, s taskState) (answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	t := &legacyTask{conversation: c, id: s.id, end: make(chan ending, 1)}
	defer cancel()
	c.keep(func(place *token) { place.Task, place.Event = s.id, "" })
	reply, err := (&remoteTask{opts: c.legacy.opts, handler: c.handler, dialect: t, passing: c.session.channel != nil}).follow(ctx, s)
	return answer{Reply: reply}, err
}

// errand sends a request about the task until limited ends. What comes on its
// stream belongs to the call, and so goes on until ctx ends.
func (t *legacyTask) errand(ctx, limited context.Context, method string) (answer, error) {
	c := t.conversation
	return c.session.line.exchange(limited, outgoing{
		id: c.legacy.ids.next(), method: method, params: wire.Object{}.With("taskId", wire.Quote(t.id)),
		header: ownHeader(c.header),
	}, func(m wire.Message) { c.receive(ctx, m) }).outcome(limited)
}

func (t *legacyTask) get(ctx, limited context.Context) (taskState, error) {
	a, err := t.errand(ctx, limited, "tasks/get")
	switch {
	case t.conversation.session.lost(a, err):
		return taskState{}, gone{errSessionLost}
	case err != nil:
		return taskState{}, err
	}
	o, _ := wire.ParseObject(a.Result) // none for an error
	if s, ok := parseTask(o, "pollInterval"); ok {
		return s, nil
	}
	return taskState{}, notATask(a)
}

func (t *legacyTask) settled() <-chan ending { return t.end }

// ask opens the stream that the questions come on. A server that answers before
// the task has ended has nothing to say yet.
func (t *legacyTask) ask(ctx context.Context, _ taskState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open {
		return
	}
	t.open = true
	t.conversation.streams.Go(func() {
		a, err := t.errand(ctx, ctx, "tasks/result")
		if err == nil && a.Error == nil {
			t.end <- ending{reply: a.Reply}
			return // and leaves it open: it was the last
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.open = false
	})
}

func (t *legacyTask) isOpen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

// outcome may be asked for again and again.
func (t *legacyTask) outcome(ctx context.Context, s taskState) (Reply, error) {
	if s.status == wire.StatusCancelled {
		return cancelledThere(s), nil
	}
	retry := t.conversation.legacy.opts.Retry
	if t.isOpen() { // then that is about to bring it
		select {
		case e := <-t.end:
			return e.reply, e.err
		case <-time.After(retry):
		case <-ctx.Done():
		}
	}
	for began := time.Now(); ; {
		a, err := t.errand(ctx, ctx, "tasks/result")
		switch {
		case ctx.Err() != nil:
			return Reply{}, ended(ctx, nil)
		case err == nil:
			return a.Reply, nil
		case time.Since(began) > patience*retry:
			return Reply{}, broken(0, "the outcome of the upstream's task could not be fetched: %w", err)
		}
		wait(ctx, 4*retry)
	}
}

func (t *legacyTask) cancel(ctx context.Context) {
	_, _ = t.errand(ctx, ctx, "tasks/cancel") // nobody waits for what comes of it
}
