package taskrun

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"taskgate/policy"
	"taskgate/taskroute"
)

// A shared call is one that policy dedupes: whoever makes the same call within
// the window gets the outcome of the first, at whatever replica. It is a record
// from the start, named by a reservation, and its clients wait for it as those
// of a held call do. Because none of them has the call to himself, a hang-up
// does not cancel it; its timeout, or tasks/cancel, does.

// isShared: policy dedupes the call.
func (c *Call) isShared() bool { return c.Decision.Dedupe.Within > 0 }

// isFresh tells a call from the retry of one whose upstream has asked: that one
// differs in what it answers.
func (c *Call) isFresh() bool {
	return c.Params.Get("inputResponses") == nil && c.Params.Get("requestState") == nil
}

// sameness is equal for calls that are the same.
func (c *Call) sameness() string {
	parts := []string{c.Owner.String(), c.Upstream, c.Tool}
	if slices.Contains(c.Decision.Dedupe.By, policy.ByArguments) {
		parts = append(parts, string(c.canonicalArguments()))
	}
	return digest(parts...)
}

// share joins the same call, or makes c the one that others join. done is false
// when neither can be: c then runs on its own.
func (r *Runner) share(ctx context.Context, c Call, observe Observer) (out Outcome, done bool, err error) {
	key := c.sameness()
	first, joinable, err := r.sameCall(ctx, &c, key)
	switch {
	case err != nil:
		return Outcome{}, false, r.notShared(err)
	case joinable:
		return r.join(ctx, c, first)
	}
	return r.lead(ctx, c, observe, key, first)
}

// sameCall finds the call that has the key. One that was cancelled, or failed,
// is not joined: who calls again after that wants it done again.
func (r *Runner) sameCall(ctx context.Context, c *Call, key string) (id string, joinable bool, err error) {
	brief, cancel := r.briefly(ctx)
	defer cancel()
	if id, err = r.store.Reserved(brief, key); err != nil || id == "" {
		return "", false, err
	}
	rec, err := r.heldBy(c, id).look(ctx)
	switch {
	case unknown(err):
		return id, false, nil
	case err != nil:
		return "", false, err
	}
	over := rec.State.Status == taskroute.Failed || rec.State.Status == taskroute.Cancelled || !rec.State.CancelledAt.IsZero()
	return id, !over, nil
}

func (r *Runner) heldBy(c *Call, id string) *held {
	return &held{r: r, call: c, by: taskroute.By{Owner: c.Owner, Kind: taskroute.Held}, id: id}
}

func (r *Runner) join(ctx context.Context, c Call, id string) (Outcome, bool, error) {
	r.metrics.joined.WithLabelValues(c.Upstream).Inc()
	out, err := r.heldBy(&c, id).await(ctx)
	return out, true, err
}

// lead makes the call a record and then reserves the key for it, in this order:
// what a reservation names is always there. Of several that do so at once one
// has the key; the others join it, and their records end unseen.
func (r *Runner) lead(ctx context.Context, c Call, observe Observer, key, instead string) (Outcome, bool, error) {
	x, callCtx := r.newRun(ctx, c, observe)
	rec, err := x.enroll(ctx, c.firstKind())
	if err != nil {
		x.flight.End()
		return Outcome{}, ctx.Err() != nil, r.notShared(err)
	}
	brief, cancel := r.briefly(context.WithoutCancel(ctx))
	defer cancel()
	winner, err := r.store.Reserve(brief, key, rec.ID, instead, c.Decision.Dedupe.Within)
	if err == nil && winner != rec.ID {
		x.drop()
		x.flight.End()
		r.busy.Go(func() { r.disown(rec.ID) })
		return r.join(ctx, c, winner)
	}
	if err != nil { // the record goes on; nobody finds it by the key
		_ = r.notShared(err)
	}
	r.crew.run(func() { x.dispatch(callCtx, x.call.Params) })
	x.keep()
	defer x.observe.Store(nil)
	out, err := r.heldBy(&c, rec.ID).await(ctx)
	return out, true, err
}

// firstKind is what the record of a shared call begins as.
func (c *Call) firstKind() taskroute.Kind {
	if c.mayBecomeTask() && c.Decision.PromoteAfter == 0 {
		return taskroute.Task
	}
	return taskroute.Held
}

// notShared notes why the same call cannot be looked for, or found.
func (r *Runner) notShared(err error) error {
	if errors.Is(err, context.Canceled) {
		return err // nobody waits for it
	}
	r.metrics.unshared.Inc()
	r.log.Warn("call is not deduped: the store could not be asked, or kept no record", zap.Error(err))
	return err
}
