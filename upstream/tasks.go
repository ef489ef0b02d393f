package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"taskgate/wire"
)

// remoteTask follows a task that an upstream made of a call to its end. What is
// above sees nothing of it but a call that takes long: the task's id stays here.
type remoteTask struct {
	opts    Options
	handler Handler
	dialect taskDialect
	passing bool // as in token

	shown string // the status message that was last relayed
	count int    // of the messages relayed
}

// taskDialect is an era's way with tasks: 2025-11-25 basic/utilities/tasks, or
// SEP-2663.
type taskDialect interface {
	// get is tasks/get, which has until limited ends. What comes beside the
	// answer goes on until ctx does. An error that is no gone may go away.
	get(ctx, limited context.Context) (taskState, error)
	// ask sees to the questions of a task that is input_required, without
	// waiting for their answers.
	ask(ctx context.Context, s taskState)
	// outcome is what the call would have returned, of a task that has ended.
	outcome(ctx context.Context, s taskState) (Reply, error)
	// settled receives how the call ends when that shows in another way.
	settled() <-chan ending
	// cancel is tasks/cancel.
	cancel(ctx context.Context)
}

// ending is how a call came to its end.
type ending struct {
	reply Reply
	err   error
}

// taskState is what a task was last seen to be.
type taskState struct {
	id      string
	status  string
	message string
	poll    time.Duration // until it is worth while to look again; 0: not said
	detail  wire.Object   // all of it
}

// parseTask reads a task. pollMember is what the era calls the poll interval.
func parseTask(o wire.Object, pollMember string) (taskState, bool) {
	s := taskState{detail: o}
	s.id, _ = wire.String(o.Get("taskId"))
	s.status, _ = wire.String(o.Get("status"))
	s.message, _ = wire.String(o.Get("statusMessage"))
	var ms float64
	if json.Unmarshal(o.Get(pollMember), &ms) == nil && ms > 0 && ms < float64(maxPoll.Milliseconds()) {
		s.poll = time.Duration(ms * float64(time.Millisecond))
	}
	return s, s.id != "" && s.status != ""
}

// maxPoll is the longest poll interval that is believed.
const maxPoll = 24 * time.Hour

// gone tells that the upstream does not know the task (any more).
type gone struct{ error }

// patience is how long an upstream may be out of reach before its call is given
// up, in units of Options.Retry.
const patience = 120

// follow polls the task until it has ended. When ctx ends first the upstream is
// told to cancel it, unless it is only left (ErrLeave).
func (t *remoteTask) follow(ctx context.Context, s taskState) (Reply, error) {
	for {
		t.relay(s)
		switch s.status {
		case wire.StatusCompleted, wire.StatusFailed, wire.StatusCancelled:
			return t.dialect.outcome(ctx, s)
		case wire.StatusInputRequired:
			t.dialect.ask(ctx, s)
		}
		next, end := t.next(ctx, s)
		if end != nil {
			return end.reply, end.err
		}
		s = next
	}
}

// next is the state the task is in at the next look, or how the call ended
// before there was one.
func (t *remoteTask) next(ctx context.Context, s taskState) (taskState, *ending) {
	pause, began := t.pause(s), time.Now()
	for {
		timer := time.NewTimer(pause)
		select {
		case e := <-t.dialect.settled():
			timer.Stop()
			return s, &e
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return s, &ending{err: t.leave(ctx)}
		}
		next, err := t.look(ctx)
		switch {
		case ctx.Err() != nil:
			return s, &ending{err: t.leave(ctx)}
		case err == nil:
			return next, nil
		case errors.As(err, new(gone)), time.Since(began) > patience*t.opts.Retry+t.pause(s):
			return s, &ending{err: broken(0, "the upstream's task is lost: %w", err)}
		}
		pause = min(2*pause, max(t.pause(s), 30*t.opts.Retry))
	}
}

// look is get with a time limit, so that one request that hangs is not all.
func (t *remoteTask) look(ctx context.Context) (taskState, error) {
	limited, cancel := context.WithTimeout(ctx, t.opts.InitializeTimeout)
	defer cancel()
	return t.dialect.get(ctx, limited)
}

func (t *remoteTask) pause(s taskState) time.Duration {
	if s.poll == 0 {
		return t.opts.Retry
	}
	return s.poll
}

func (t *remoteTask) leave(ctx context.Context) error {
	if !left(ctx) || t.passing {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.opts.CancelTimeout)
		defer cancel()
		t.dialect.cancel(ctx)
	}
	return ended(ctx, nil)
}

// relay shows how far the task is. That it was heard of is a sign of life also
// when it says nothing new.
func (t *remoteTask) relay(s taskState) {
	if s.message == "" || s.message == t.shown {
		t.handler.Notify("notifications/tasks/status", s.detail.Bytes())
		return
	}
	t.shown = s.message
	t.count++
	t.handler.Progress(wire.Object{}.With("progress", wire.Raw(strconv.Itoa(t.count))).With("message", wire.Quote(s.message)))
}

// cancelledThere is the response of a call whose task the upstream cancelled by
// itself.
func cancelledThere(s taskState) Reply {
	message := "The upstream has cancelled the call"
	if s.message != "" {
		message += ": " + s.message
	}
	e := wire.Errorf(wire.CodeInternal, "%s", message).WithData(map[string]string{"reason": "upstream_cancelled"})
	return Reply{Error: e.Raw()}
}

// ErrLeave, as the cause of the end of a call's context, leaves the call running
// at the upstream for whoever resumes it. A call that cannot be resumed is
// cancelled all the same.
var ErrLeave = errors.New("the call is left to be resumed")

// notATask is why an answer to tasks/get is of no use.
func notATask(a answer) error {
	if a.Error == nil {
		return fmt.Errorf("tasks/get: the result is no task")
	}
	e := wire.ParseError(a.Error)
	if e.Code == wire.CodeInvalidParams || e.Code == wire.CodeMethodNotFound {
		return gone{fmt.Errorf("tasks/get: %w", e)}
	}
	return fmt.Errorf("tasks/get: %w", e)
}
