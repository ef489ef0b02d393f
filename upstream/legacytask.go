package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"taskgate/wire"
)

// toolList is what a session has listed of tools that run only as tasks
// (2025-11-25 basic/utilities/tasks#tool-level-negotiation).
type toolList struct {
	mu     sync.Mutex
	tools  map[string]bool // that it is so, by name of every tool
	listed time.Time
}

// listAgain is how long a list is good for a tool that is not on it.
const listAgain = time.Minute

// needsTask tells whether the call must ask for a task. Only servers that make
// them are asked what tools they have, once a session.
func (l *legacy) needsTask(ctx context.Context, s *session, header http.Header, r Request) bool {
	tool := toolOf(r)
	if tool == "" || !s.makesTasks() {
		return false
	}
	needed, known := s.tools.look(tool, l.opts.Now())
	if known {
		return needed
	}
	_, err := l.listing.do(ctx, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.list(ctx, s, header)
	})
	if err != nil {
		s.tools.set(nil, l.opts.Now()) // the call itself will show what is wrong
		l.opts.Log.Debug("upstream did not list its tools", zap.String("upstream", l.opts.Name), LogError(err))
	}
	needed, _ = s.tools.look(tool, l.opts.Now())
	return needed
}

func (s *session) makesTasks() bool {
	capabilities, _ := wire.ParseObject(s.capabilities())
	tasks, _ := capabilities.Object("tasks")
	requests, _ := tasks.Object("requests")
	tools, _ := requests.Object("tools")
	_, ok := tools.Object("call")
	return ok
}

// look also knows that a tool is not there.
func (t *toolList) look(tool string, now time.Time) (needsTask, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	needsTask, known = t.tools[tool]
	return needsTask, known || !t.listed.IsZero() && now.Sub(t.listed) < listAgain
}

func (t *toolList) set(tools map[string]bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tools, t.listed = tools, now
}

// taskTTL is for how long a server is asked to keep a task: longer than anybody
// waits for it, because it cannot be asked for again.
const taskTTL = 24 * time.Hour

// withTask asks for a task. params are an object.
func withTask(params wire.Raw) wire.Raw {
	o, _ := wire.ParseObject(params)
	return o.With("task", wire.Object{}.With("ttl", number(uint64(taskTTL.Milliseconds()))).Bytes()).Bytes()
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
	reply, err := (&remoteTask{opts: c.legacy.opts, handler: c.handler, dialect: t}).follow(ctx, s)
	return answer{Reply: reply}, err
}

func (t *legacyTask) errand(ctx context.Context, method string) (answer, error) {
	return t.conversation.errand(ctx, method, wire.Object{}.With("taskId", wire.Quote(t.id)))
}

func (t *legacyTask) get(ctx context.Context) (taskState, error) {
	a, err := t.errand(ctx, "tasks/get")
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
	t.conversation.legacy.endpoint.running.Go(func() {
		a, err := t.errand(ctx, "tasks/result")
		if err == nil && a.Error == nil {
			t.end <- ending{reply: a.Reply}
			return // and leaves it open: it was the last
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.open = false
	})
}

// outcome may be asked for again and again.
func (t *legacyTask) outcome(ctx context.Context, s taskState) (Reply, error) {
	if s.status == wire.StatusCancelled {
		return cancelledThere(s), nil
	}
	retry := t.conversation.legacy.opts.Retry
	for began := time.Now(); ; {
		a, err := t.errand(ctx, "tasks/result")
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
	_, _ = t.errand(ctx, "tasks/cancel") // nobody waits for what comes of it
}

// maxPages limits how far a list is followed.
const maxPages = 100

func (l *legacy) list(ctx context.Context, s *session, header http.Header) error {
	tools := map[string]bool{}
	var params wire.Object
	for range maxPages {
		a, err := l.errand(ctx, s, header, "tools/list", params)
		if err != nil {
			return err
		}
		if a.Error != nil {
			return fmt.Errorf("tools/list: error %d", wire.ParseError(a.Error).Code)
		}
		var page struct {
			Tools []struct {
				Name      string
				Execution struct{ TaskSupport string }
			}
			NextCursor wire.Raw
		}
		if err := json.Unmarshal(a.Result, &page); err != nil {
			return fmt.Errorf("tools/list: %w", err)
		}
		for _, tool := range page.Tools {
			tools[tool.Name] = tool.Execution.TaskSupport == "required"
		}
		if _, more := wire.String(page.NextCursor); !more {
			break
		}
		params = wire.Object{}.With("cursor", page.NextCursor)
	}
	s.tools.set(tools, l.opts.Now())
	return nil
}
