package taskrun

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"taskgate/policy"
	"taskgate/taskroute"
	"taskgate/wire"
)

// errInputTimeout ends a call whose question nobody answered in time.
var errInputTimeout = errors.New("nobody answered the upstream's question in time")

// substitute is what policy answers in the client's place. ok is false when the
// question has no such answer; the upstream then gets an error.
func substitute(method string, then policy.InputExpiry) (answer wire.Raw, ok bool) {
	if method != wire.MethodElicit {
		return nil, false
	}
	return wire.Object{}.With("action", wire.Quote(string(then))).Bytes(), true
}

// limitAnswer starts the time for the answer to a question.
func (x *run) limitAnswer(a *ask) {
	after := x.call.Decision.InputTimeout.After
	if after == 0 {
		return
	}
	a.until = time.Now().Add(after)
	time.AfterFunc(after, x.wake)
}

// answerOverdue is what becomes of a legacy upstream's questions at that time.
func (x *run) answerOverdue() {
	for key, a := range x.pending {
		if !a.until.IsZero() && time.Until(a.until) <= 0 {
			x.answerInstead(key, a)
		}
	}
}

func (x *run) answerInstead(key string, a *ask) {
	then := x.call.Decision.InputTimeout.Then
	if then == policy.Fail {
		x.flight.Cancel(errInputTimeout)
		return
	}
	if answer, ok := substitute(a.Method, then); ok {
		_, _ = x.update(func(rec *taskroute.Record) error { // the sync that comes next delivers it
			_, err := rec.Answer(wire.Object{}.With(key, answer), x.r.opts.Now())
			return err
		})
		return
	}
	_, _ = x.update(func(rec *taskroute.Record) error { return rec.Withdraw(key, x.r.opts.Now()) })
	x.forget(key)
	a.answer <- answer{err: wire.Errorf(wire.CodeInternal, "nobody answered in time")}
}

// watchParked sees to a parked record when the time for its answers is over.
// Should this replica be gone by then, who next asks for the record does it.
func (r *Runner) watchParked(id string, after time.Duration) {
	if after == 0 {
		return
	}
	r.busy.Go(func() {
		select {
		case <-time.After(after):
		case <-r.draining:
			return
		}
		if err := r.expireParked(context.Background(), id); err != nil && !final(err) {
			r.log.Warn("a question's time is over and the store could not be told", zap.Error(err))
		}
	})
}

// expireParked answers for the client, or ends the record, as policy says.
func (r *Runner) expireParked(ctx context.Context, id string) error {
	rec, err := r.load(ctx, id)
	if err != nil || !rec.Overdue(r.opts.Now()) {
		return err
	}
	call, err := callOf(rec)
	if err != nil {
		return r.fail(ctx, &call, id, "", err)
	}
	then := call.Decision.InputTimeout.Then
	failure := WireError(errInputTimeout)
	ctx, cancel := r.briefly(ctx)
	defer cancel()
	rec, err = r.store.UpdateAny(ctx, id, func(rec *taskroute.Record) error {
		now := r.opts.Now()
		if !rec.Overdue(now) {
			return nil
		}
		var answers wire.Object
		for _, q := range rec.Input.Questions {
			answer, ok := substitute(q.Method, then)
			if q.Pending() && (!ok || then == policy.Fail) {
				return rec.Fail(failure.Raw(), failure.Message, now)
			}
			answers = answers.With(q.Key, answer)
		}
		_, err := rec.Answer(answers, now)
		return err
	})
	if err == nil {
		r.spanOfEnd(&call, rec)
		r.resumeIfParked(ctx, rec)
	}
	return err
}
