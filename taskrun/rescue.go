package taskrun

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"taskgate/policy"
	"taskgate/taskroute"
	"taskgate/tracing"
)

const rescuePage = 100

// maxMet is on how many pages others are faster from the beginning before the rest
// is left to them.
const maxMet = 2

// rescueOnce sees to every record whose holder is dead, once that can be judged.
// One that resists does not keep it from the others. All replicas find the same
// orphans at about the same time: where one meets another it goes on to the next
// page, and where it finds nothing to do it soon goes away. Else each would read each
// orphan, only to find that somebody was faster.
func (r *Runner) rescueOnce(ctx context.Context) error {
	var failed error
	met := 0
	for cursor := ""; ; {
		orphans, next, err := r.orphans(ctx, cursor)
		if err != nil {
			return errors.Join(failed, err)
		}
		if !r.isCalm() { // asked after the page was read, which may have taken as long as the store was away
			return failed
		}
		late, err := r.rescueEach(ctx, orphans)
		if err != nil {
			failed = err
		}
		if late {
			met++
		}
		if next == "" || ctx.Err() != nil || met == maxMet {
			return failed
		}
		cursor = next
	}
}

// rescueEach sees to orphans, in an order that is no other replica's, until it
// finds that one of them was somebody else's. Whoever was faster goes on, so
// that none is left. late: the very first was.
func (r *Runner) rescueEach(ctx context.Context, orphans []taskroute.Orphan) (late bool, failed error) {
	for n, i := range rand.Perm(len(orphans)) {
		err := r.rescue(ctx, orphans[i])
		switch {
		case notHeld(err):
			return n == 0, failed
		case err != nil && !final(err):
			failed = fmt.Errorf("rescue: %w", err)
		}
	}
	return false, failed
}

func (r *Runner) orphans(ctx context.Context, cursor string) ([]taskroute.Orphan, string, error) {
	ctx, cancel := r.briefly(ctx)
	defer cancel()
	return r.store.Backend().Orphans(ctx, cursor, rescuePage)
}

// rescue decides on one orphan (contract 7): a recorded wish to cancel is
// fulfilled; what was only waiting to be sent is sent; what was being run is
// found again, or run again if policy lets it, or else ends, because nobody
// knows how far it came.
func (r *Runner) rescue(ctx context.Context, o taskroute.Orphan) error {
	if _, ours := r.own.Load(o.ID); ours {
		return nil // held by an earlier incarnation of this very process; its run takes it over
	}
	if o.Holder == "" {
		return r.proceed(ctx, o.ID, r.opts.Lease/2)
	}
	rec, err := r.load(ctx, o.ID)
	if err != nil {
		return err
	}
	if rec.State.Holder != o.Holder {
		return taskroute.ErrFenced
	}
	call, err := r.runnable(rec)
	switch {
	case err != nil:
		return r.fail(ctx, &call, o.ID, o.Holder, errHolderLost)
	case !rec.State.CancelledAt.IsZero():
		return r.stopOrphan(ctx, rec, o.Holder, call)
	case rec.State.Resume != nil:
		return r.takeOver(ctx, rec, o.Holder, call, (*taskroute.Record).Reclaim)
	case call.mayRunAgain(rec.State):
		return r.takeOver(ctx, rec, o.Holder, call, (*taskroute.Record).Restart)
	}
	return r.fail(ctx, &call, o.ID, o.Holder, errHolderLost)
}

// mayRunAgain: policy says that the tool is idempotent, and there are attempts
// left. A wish to cancel comes before that.
func (c *Call) mayRunAgain(s taskroute.State) bool {
	return c.Decision.OnLoss == policy.LossReruns && s.Attempts < c.Decision.MaxAttempts && s.CancelledAt.IsZero()
}

// takeOver claims the record of a dead holder and runs its call: after Reclaim
// where it is, after Restart once more, and then the questions of the lost
// attempt are gone.
func (r *Runner) takeOver(ctx context.Context, rec *taskroute.Record, dead string, call Call, by func(rec *taskroute.Record, holder string, now time.Time) error) error {
	r.busy.enter()
	defer r.busy.leave()
	if closed(r.draining) {
		return nil // another replica, or the next start, does it
	}
	claimed, err := r.claim(ctx, rec, func(rec *taskroute.Record, holder string) error {
		if rec.State.Holder != dead || !rec.State.CancelledAt.IsZero() {
			return taskroute.ErrFenced
		}
		return by(rec, holder, r.opts.Now())
	})
	if err != nil {
		return err
	}
	event := tracing.Reattached
	if claimed.State.Attempts > rec.State.Attempts {
		event = tracing.Rerun
		r.metrics.reruns.Inc()
	}
	r.start(ctx, call, claimed, call.Params, event)
	return nil
}

var errHolderLost = errors.New("the gateway replica that ran the call was lost; whether the tool has run to its end is unknown")

// fail ends a record that is still held by holder.
func (r *Runner) fail(ctx context.Context, call *Call, id, holder string, why error) error {
	failure := WireError(why)
	ctx, cancel := r.briefly(ctx)
	defer cancel()
	rec, err := r.store.UpdateAny(ctx, id, func(rec *taskroute.Record) error {
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
		r.spanOfEnd(call, rec)
	}
	return err
}
