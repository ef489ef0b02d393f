package taskrun

import (
	"context"
	"errors"
	"reflect"
	"time"

	"go.uber.org/zap"

	"taskgate/policy"
	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// settle writes how the call ended.
func (x *run) settle(end *ended) {
	now := x.r.opts.Now
	switch {
	case errors.Is(end.err, errExpired), errors.Is(end.err, errLost), errors.Is(end.err, errSentAgain):
		return
	case errors.Is(end.err, upstream.ErrLeave):
		x.handOver()
	case errors.Is(end.err, errShutdown) && x.call.Decision.OnLoss == policy.LossReruns:
		return // whoever finds the orphan, once the lease is given back, decides as policy says
	case errors.Is(end.err, errCancelled):
		x.end(func(rec *taskroute.Record) error {
			return rec.Cancel("Cancelled at the owner's request; the upstream was told to stop.", now())
		})
	case end.err != nil:
		failure := WireError(end.err)
		x.end(func(rec *taskroute.Record) error { return rec.Fail(failure.Raw(), failure.Message, now()) })
	case end.reply.Error != nil:
		message := wire.ParseError(end.reply.Error).Message
		x.end(func(rec *taskroute.Record) error { return rec.Fail(wire.ModernError(end.reply.Error), message, now()) })
	case end.kind == wire.ResultInputRequired:
		x.park(end.reply.Result)
	default:
		result, err := wire.ModernResult(x.call.method(), end.reply.Result, nil)
		if err != nil {
			x.settle(&ended{err: &upstream.Error{Kind: upstream.Broken, MayHaveRun: true, Err: err}})
			return
		}
		x.end(func(rec *taskroute.Record) error { return rec.Complete(result, now()) })
	}
}

func (x *run) end(transition func(*taskroute.Record) error) {
	x.r.metrics.unwritten.Inc()
	rec, err := x.update(transition)
	x.r.metrics.unwritten.Dec()
	if err != nil {
		x.r.metrics.dropped.Inc()
		x.r.log.Warn("the end of a call was not recorded", zap.String("upstream", x.call.Upstream), zap.Error(err))
		return
	}
	x.r.metrics.ended.WithLabelValues(x.call.Upstream, string(rec.State.Status)).Inc()
	endedSpan(x.span, rec)
}

// update writes a change to the record this run holds, for as long as it takes:
// the store may be away for a while, and the result is not to be lost for it.
// A write that gives the record away, by ending or parking it, is known again
// when its reply was lost: else it would look as if somebody else had done that.
func (x *run) update(change func(*taskroute.Record) error) (rec *taskroute.Record, err error) {
	var wrote taskroute.State // by the last try
	err = x.r.persist(context.Background(), x.expires, func(ctx context.Context) (err error) {
		rec, err = x.try(ctx, func(rec *taskroute.Record) error {
			err := change(rec)
			wrote = rec.State
			return err
		})
		if notHeld(err) && reflect.DeepEqual(rec.State, wrote) {
			return nil
		}
		return err
	})
	return rec, err
}

// notHeld tells that the record has ended, or is another's.
func notHeld(err error) bool {
	return errors.Is(err, taskroute.ErrTerminal) || errors.Is(err, taskroute.ErrFenced)
}

// persist repeats a write until it is done, can never be, or is too late.
func (r *Runner) persist(ctx context.Context, until time.Time, write func(context.Context) error) error {
	// Often enough to be done, once the store is back, before others take this
	// replica for dead.
	longest := r.opts.Lease / 5
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, longest) {
		brief, cancel := r.briefly(ctx)
		err := write(brief)
		cancel()
		if err == nil || final(err) || errors.Is(err, taskroute.ErrUnreadable) || (!until.IsZero() && !r.opts.Now().Before(until)) {
			return err
		}
		r.metrics.retries.Inc()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		case <-r.quit:
			return err
		}
	}
}

func final(err error) bool {
	return notHeld(err) || errors.Is(err, taskroute.ErrNewer) ||
		errors.Is(err, taskroute.ErrNotFound) || errors.Is(err, taskroute.ErrExpired)
}
