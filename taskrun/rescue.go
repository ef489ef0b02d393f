package taskrun

import (
	"context"
	"errors"

	"taskgate/policy"
	"taskgate/taskroute"
)

const rescuePage = 100

// rescueOnce sees to every record whose holder is dead.
func (r *Runner) rescueOnce(ctx context.Context) error {
	for cursor := ""; ; {
		orphans, next, err := r.store.Backend().Orphans(ctx, cursor, rescuePage)
		if err != nil {
			return err
		}
		for _, o := range orphans {
			if err := r.rescue(ctx, o); err != nil && !final(err) {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

// rescue decides on one orphan (contract 7): a recorded wish to cancel is
// fulfilled; what was only waiting to be sent is sent; what was being run ends,
// because nobody knows how far it came.
func (r *Runner) rescue(ctx context.Context, o taskroute.Orphan) error {
	if _, ours := r.own.Load(o.ID); ours {
		return nil // held by an earlier incarnation of this very process; its run takes it over
	}
	if o.Holder == "" {
		return r.proceed(ctx, o.ID, r.opts.Lease/2)
	}
	rec, err := r.store.Load(ctx, o.ID)
	if err != nil {
		return err
	}
	if call, err := callOf(rec); err == nil && call.mayRunAgain(rec.State) {
		return r.runAgain(ctx, o, call)
	}
	return r.fail(ctx, o.ID, o.Holder, errHolderLost)
}

// mayRunAgain: policy says that the tool is idempotent, and there are attempts
// left. A wish to cancel comes before that.
func (c *Call) mayRunAgain(s taskroute.State) bool {
	return c.Decision.OnLoss == policy.LossReruns && s.Attempts < c.Decision.MaxAttempts && s.CancelledAt.IsZero()
}

// runAgain claims the record and sends its call once more. Questions of the
// lost attempt go with it.
func (r *Runner) runAgain(ctx context.Context, o taskroute.Orphan, call Call) error {
	claimed, err := r.store.UpdateAny(ctx, o.ID, func(rec *taskroute.Record) error {
		if rec.State.Holder != o.Holder || !rec.State.CancelledAt.IsZero() {
			return taskroute.ErrFenced
		}
		return rec.Restart(*r.holder.Load(), r.opts.Now())
	})
	if err != nil {
		return err
	}
	r.metrics.reruns.Inc()
	r.start(ctx, call, claimed, call.Params)
	return nil
}

var errHolderLost = errors.New("the gateway replica that ran the call was lost; whether the tool has run to its end is unknown")

// fail ends a record that is still held by holder.
func (r *Runner) fail(ctx context.Context, id, holder string, why error) error {
	failure := WireError(why)
	_, err := r.store.UpdateAny(ctx, id, func(rec *taskroute.Record) error {
		if rec.State.Holder != holder {
			return taskroute.ErrFenced
		}
		if !rec.State.CancelledAt.IsZero() {
			return rec.Cancel("Cancelled at the owner's request; whether the upstream was told is unknown.", r.opts.Now())
		}
		return rec.Fail(failure.Raw(), failure.Message, r.opts.Now())
	})
	if err == nil {
		r.metrics.rescued.Inc()
	}
	return err
}
