package taskrun

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// attend waits, in the client's own goroutine, for the first thing to tell it.
func (x *run) attend(ctx context.Context) (Outcome, error) {
	promote := x.promoteTimer()
	defer promote.Stop()
	for {
		select {
		case end := <-x.ended:
			return x.answered(ctx, end)
		case a := <-x.asked:
			if out, ok := x.question(ctx, a); ok {
				return out, nil
			}
		case <-promote.C:
			if out, ok := x.promote(ctx); ok {
				return out, nil
			}
			promote.Reset(x.r.opts.Recheck) // the store may be back by then
		case <-ctx.Done():
			x.observe.Store(nil)
			x.flight.Cancel(errClientGone)
			return Outcome{}, context.Cause(ctx)
		}
	}
}

// promoteTimer fires when the call has been synchronous for long enough; for a
// call that must stay so, never.
func (x *run) promoteTimer() *time.Timer {
	t := time.NewTimer(max(x.call.Decision.PromoteAfter, time.Millisecond))
	if !x.call.mayBecomeTask() {
		t.Stop()
	}
	return t
}

// promote turns the running call into a task. It fails when the store cannot
// keep the task: the call then stays synchronous (contract 3).
func (x *run) promote(ctx context.Context) (Outcome, bool) {
	if len(x.ended) > 0 { // the answer came at the same moment
		return Outcome{}, false
	}
	rec, err := x.enroll(ctx, taskroute.Task)
	if err != nil {
		return Outcome{}, false
	}
	x.detach()
	return Outcome{Task: rec}, true
}

// detach leaves the call to the background.
func (x *run) detach() {
	x.observe.Store(nil)
	x.r.background.Go(x.follow)
}

// answered is the end of a call that its client has waited for.
func (x *run) answered(ctx context.Context, end ended) (Outcome, error) {
	if end.err != nil {
		return Outcome{}, end.err
	}
	if !isInputRequired(end.reply) {
		return Outcome{Reply: &end.reply}, nil
	}
	questions, state, err := readInputRequired(end.reply.Result, x.call.Meta.Capabilities)
	if err != nil {
		return Outcome{}, err
	}
	if !x.call.asksIntoTask() || len(questions) == 0 {
		return Outcome{Reply: &end.reply}, nil // basic/patterns/mrtr: the client retries
	}
	rec, err := x.enroll(ctx, taskroute.Task, func(rec *taskroute.Record) error {
		return x.parkOn(rec, questions, state)
	})
	if err != nil { // no task without a store; a question is an answer too
		return Outcome{Reply: &end.reply}, nil
	}
	x.r.watchParked(rec.ID, x.call.Decision.InputTimeout.After)
	return Outcome{Task: rec}, nil
}

// question is the first question of a legacy upstream. It makes the call a
// record: a task, or one that is held under a requestState.
func (x *run) question(ctx context.Context, a *ask) (Outcome, bool) {
	kind := taskroute.Held
	if x.call.asksIntoTask() {
		kind = taskroute.Task
	}
	var key, ticket string
	rec, err := x.enroll(ctx, kind, func(rec *taskroute.Record) (err error) {
		if key, err = askOn(rec, a, x.r.opts.Now()); err == nil && kind == taskroute.Held {
			ticket = issueTicket(rec, &x.call)
		}
		return err
	})
	if err != nil {
		a.answer <- answer{err: wire.Errorf(wire.CodeInternal, "the question cannot be kept right now")}
		return Outcome{}, false
	}
	x.waitFor(key, a)
	x.detach()
	if kind == taskroute.Task {
		return Outcome{Task: rec}, true
	}
	return Outcome{Input: &InputRequired{Requests: rec.PendingInputs(), State: requestState(rec.ID, ticket)}}, true
}

func askOn(rec *taskroute.Record, a *ask, now time.Time) (string, error) {
	keys, err := rec.Ask([]taskroute.Question{{Method: a.method, Params: a.params}}, now)
	if err != nil {
		return "", err
	}
	return keys[0], nil
}

// waitFor notes who waits for the answer.
func (x *run) waitFor(key string, a *ask) {
	x.pending[key] = a
	x.pauseClocks()
	x.limitAnswer(key)
}

// create stores a new record within the owner's limit.
func (r *Runner) create(ctx context.Context, rec *taskroute.Record) error {
	if err := r.store.CheckOpen(ctx, rec.State.Owner, r.opts.MaxOpen); err != nil {
		return err
	}
	return r.store.Create(ctx, rec)
}

// notEnrolled logs why a call stays synchronous. When it is not known whether
// the record is there, nobody has its handle: it is ended, when that can be.
func (r *Runner) notEnrolled(id string, err error) {
	r.metrics.refused.Inc()
	r.log.Warn("call stays synchronous: the store did not take its record", zap.Error(err))
	if tooMany := new(taskroute.TooManyOpenError); errors.Is(err, taskroute.ErrFull) || errors.As(err, &tooMany) {
		return // nothing was written
	}
	r.background.Go(func() { r.disown(id) })
}

func (r *Runner) disown(id string) {
	r.persist(time.Now().Add(time.Minute), func(ctx context.Context) error {
		_, err := r.store.UpdateAny(ctx, id, func(rec *taskroute.Record) error {
			return rec.Cancel("Its handle was never given out.", r.opts.Now())
		})
		return err
	})
}

func isInputRequired(reply upstream.Reply) bool {
	o, err := wire.ParseObject(reply.Result)
	if err != nil {
		return false
	}
	t, _ := wire.String(o.Get("resultType"))
	return t == wire.ResultInputRequired
}
