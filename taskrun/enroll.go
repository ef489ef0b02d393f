package taskrun

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"taskgate/policy"
	"taskgate/taskroute"
)

// enroll makes the call a record, with the questions that are already there.
// When it returns nil the record is durable (contract 3) and the client was
// still there to be told of it.
func (x *run) enroll(ctx context.Context, kind taskroute.Kind, prepare ...func(*taskroute.Record) error) (*taskroute.Record, error) {
	holder, err := x.r.trustedHolder()
	if err != nil {
		return nil, x.r.notEnrolled(err)
	}
	rec := x.newRecord(kind, holder)
	for _, f := range prepare {
		if err := f(rec); err != nil {
			return nil, err
		}
	}
	x.take(rec.ID)
	if err := x.r.create(ctx, rec); err != nil {
		x.drop()
		return nil, x.r.notEnrolled(err)
	}
	x.hold(rec)
	_, x.span = x.r.beginSpan(ctx, &x.call)
	x.r.metrics.created.WithLabelValues(x.call.Upstream, string(kind)).Inc()
	return rec, nil
}

func (x *run) newRecord(kind taskroute.Kind, holder string) *taskroute.Record {
	c := &x.call
	rec := taskroute.NewRecord(x.r.store.NewID(), c.Owner, kind, holder, x.r.opts.Now())
	rec.State.TTL, rec.State.PollInterval = c.Decision.TTL, c.Decision.PollInterval
	rec.State.Upstream, rec.State.Tool = c.Upstream, c.Tool
	rec.State.Shared = c.Decision.Share == policy.ShareTenant
	rec.State.StatusMessage = x.statusMessage()
	rec.State.Resume = x.lastToken()
	rec.Request = c.request()
	return rec
}

// take makes this run the one of the record, and watches the record: whoever
// learns of it after this cannot change it unseen.
func (x *run) take(id string) {
	x.id = id
	x.watch = x.r.store.Hear(id, x.wake)
	x.r.own.Store(id, x)
}

// drop undoes take. The record may be another run's by now.
func (x *run) drop() {
	x.r.own.CompareAndDelete(x.id, x)
	x.watch.Stop()
	x.id = ""
	x.span.End()
}

// hold notes how this run has the record.
func (x *run) hold(rec *taskroute.Record) {
	x.holder, x.epoch, x.rounds, x.expires = rec.State.Holder, rec.State.Epoch, rec.State.Rounds, rec.State.ExpiresAt()
	x.again.Store(x.call.mayRunAgain(rec.State))
	x.kept.Store(true)
}

// create stores a new record within the owner's limit. When it fails the record
// is not there, or will soon not be: nobody has its handle.
func (r *Runner) create(ctx context.Context, rec *taskroute.Record) error {
	brief, cancel := r.briefly(ctx)
	defer cancel()
	err := r.store.Create(brief, rec)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the client hung up meanwhile
	}
	if err != nil && !errors.Is(err, taskroute.ErrFull) && !overLimit(err) {
		r.busy.Go(func() { r.disown(rec.ID) })
	}
	return err
}

// disown ends a record whose handle was never given out. The write that made
// it may still land after it was given up, so disown looks again for a while.
func (r *Runner) disown(id string) {
	for wait := time.Second; wait <= time.Minute; wait *= 2 {
		ctx, cancel := r.briefly(context.Background())
		_, err := r.store.UpdateAny(ctx, id, func(rec *taskroute.Record) error {
			return rec.Cancel("Its handle was never given out.", r.opts.Now())
		})
		cancel()
		if err == nil || errors.Is(err, taskroute.ErrTerminal) {
			return
		}
		select {
		case <-time.After(wait):
		case <-r.draining: // then it is soon an orphan, and ends as one
			return
		}
	}
}

// notEnrolled notes why a call stays synchronous.
func (r *Runner) notEnrolled(err error) error {
	if errors.Is(err, context.Canceled) {
		return err // nobody waits for it
	}
	r.metrics.refused.Inc()
	r.log.Warn("call stays synchronous: its record was not kept", zap.Error(err))
	return err
}
