package upstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"taskgate/wire"
)

// tasksNeeded remembers the tools that a modern upstream runs only as tasks
// (SEP-2663, Capability Negotiation): the extension is declared to it for no
// others, since a task of its own is of no use to a gateway.
type tasksNeeded struct {
	mu    sync.Mutex
	tools map[string]bool
}

// maxTools bounds what a caller can fill with names.
const maxTools = 10_000

// by tells whether the tool that r calls is one of them.
func (t *tasksNeeded) by(r *Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.tools) > 0 && t.tools[toolOf(r)]
}

// note adds the tool that r calls, if it calls one.
func (t *tasksNeeded) note(r *Request) bool {
	tool := toolOf(r)
	if tool == "" {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tools == nil || len(t.tools) >= maxTools {
		t.tools = map[string]bool{}
	}
	t.tools[tool] = true
	return true
}

// wantsTasks tells the refusal of a request that did not declare the extension.
func (a answer) wantsTasks() bool {
	if a.Error == nil {
		return false
	}
	e := wire.ParseError(a.Error)
	data, err := wire.ParseObject(e.Data)
	if err != nil || e.Code != wire.CodeMissingCapability {
		return false
	}
	return wire.ParseCapabilities(data.Get("requiredCapabilities")).DeclaresTasks()
}

// followTask goes on with the task that a call has made.
func (d *modern) followTask(ctx context.Context, r Request, h Handler, created wire.Raw) (Reply, error) {
	o, _ := wire.ParseObject(created) // it is one: it has a resultType
	s, ok := parseTask(o, "pollIntervalMs")
	if !ok || r.Method != "tools/call" { // SEP-2663, Supported Methods
		return Reply{}, broken(0, "the answer to %s is a task that cannot be followed", r.Method)
	}
	return d.follow(ctx, r, h, s)
}

func (d *modern) follow(ctx context.Context, r Request, h Handler, s taskState) (Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	t := &modernTask{modern: d, request: r, handler: h, id: s.id, asked: map[string]bool{}, end: make(chan ending, 1)}
	defer t.asking.Wait()
	defer cancel()
	keepAt(h, token{Modern: true, Task: s.id, passing: d.passing})
	return (&remoteTask{opts: d.opts, handler: h, dialect: t, passing: d.passing}).follow(ctx, s)
}

// modernTask is a task of SEP-2663.
type modernTask struct {
	modern  *modern
	request Request
	handler Handler
	id      string
	end     chan ending // capacity 1

	asking sync.WaitGroup
	asked  map[string]bool // keys of questions, answered or not
}

func (t *modernTask) errand(ctx context.Context, method string, params wire.Object) (answer, error) {
	return t.modern.errand(ctx, t.request, method, params.With("taskId", wire.Quote(t.id)))
}

func (t *modernTask) get(_, limited context.Context) (taskState, error) {
	a, err := t.errand(limited, "tasks/get", nil)
	if err != nil {
		return taskState{}, err
	}
	o, _ := wire.ParseObject(a.Result) // none for an error
	if s, ok := parseTask(o, "pollIntervalMs"); ok {
		return s, nil
	}
	return taskState{}, notATask(a)
}

func (t *modernTask) settled() <-chan ending { return t.end }

func (t *modernTask) outcome(_ context.Context, s taskState) (Reply, error) {
	result, failure := s.detail.Get("result"), s.detail.Get("error")
	switch {
	case s.status == wire.StatusCompleted && result != nil:
		return Reply{Result: result}, nil
	case s.status == wire.StatusFailed && failure != nil:
		return Reply{Error: failure}, nil
	case s.status == wire.StatusCancelled:
		return cancelledThere(s), nil
	}
	return Reply{}, broken(0, "the upstream's task is %s and does not say how it ended", s.status)
}

func (t *modernTask) cancel(ctx context.Context) {
	_, _ = t.errand(ctx, "tasks/cancel", nil) // nobody waits for what comes of it
}

// ask puts each question that was not there before.
func (t *modernTask) ask(ctx context.Context, s taskState) {
	questions, _ := wire.ParseObject(s.detail.Get("inputRequests"))
	for _, q := range questions {
		if t.asked[q.Name] || len(t.asked) >= maxQuestionsOfTask {
			continue
		}
		t.asked[q.Name] = true
		t.asking.Go(func() {
			if err := t.answer(ctx, q); err != nil && ctx.Err() == nil {
				t.fail(ctx, err)
			}
		})
	}
}

// maxQuestionsOfTask limits how much a task asks in its life.
const maxQuestionsOfTask = 1000

// fail ends a call whose question cannot be answered: the upstream would wait
// for ever.
func (t *modernTask) fail(ctx context.Context, err *wire.Error) {
	cancelCtx, cancel := context.WithTimeout(ctx, t.modern.opts.CancelTimeout)
	defer cancel()
	t.cancel(cancelCtx)
	select {
	case t.end <- ending{reply: Reply{Error: err.Raw()}}:
	default: // it has failed already
	}
}

func (t *modernTask) answer(ctx context.Context, q wire.Member) *wire.Error {
	o, err := wire.ParseObject(q.Value)
	method, ok := wire.String(o.Get("method"))
	if err != nil || !ok {
		return wire.Errorf(wire.CodeInternal, "The upstream's task asks something that cannot be read")
	}
	params := o.Get("params")
	if missing := t.request.Capabilities.Answers(method, params); missing != nil {
		return wire.MissingCapability(missing)
	}
	result, failure := t.handler.Ask(ctx, Question{ID: q.Name, Method: method, Params: params})
	if failure != nil {
		if method != wire.MethodElicit {
			return failure
		}
		result = wire.Raw(`{"action":"cancel"}`) // that nobody will answer can be said here
	}
	return t.update(ctx, q.Name, result)
}

// update is tasks/update. A second copy of an answer is ignored, so a failed
// request is repeated.
func (t *modernTask) update(ctx context.Context, key string, result wire.Raw) *wire.Error {
	params := wire.Object{}.With("inputResponses", wire.Object{}.With(key, result).Bytes())
	var err error
	for _, pause := range []time.Duration{0, t.modern.opts.Retry / 4, t.modern.opts.Retry} {
		if !wait(ctx, pause) {
			return nil
		}
		var a answer
		if a, err = t.errand(ctx, "tasks/update", params); err == nil && a.Error == nil {
			return nil
		}
		if err == nil {
			err = wire.ParseError(a.Error)
		}
	}
	return wire.Errorf(wire.CodeInternal, "%s", fmt.Sprintf("The upstream did not take an answer: %v", err))
}
