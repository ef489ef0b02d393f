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

// follow keeps the record of a running call up to date until one of them ends.
func (x *run) follow() {
	x.r.own.Store(x.id, struct{}{})
	defer x.r.own.Delete(x.id)
	defer close(x.followed)
	watch := x.r.store.Watch(x.id)
	defer watch.Stop()
	recheck := time.NewTicker(x.r.opts.Recheck)
	defer recheck.Stop()
	expired := timerAt(x.expires, x.r.opts.Now())
	defer expired.Stop()
	x.r.metrics.running.Inc()
	defer x.r.metrics.running.Dec()

	var saved time.Time      // when progress was last written
	var due <-chan time.Time // when newer progress may be; nil while there is none
	for {
		select {
		case end := <-x.ended:
			x.settle(end)
			return
		case a := <-x.asked:
			x.askClient(a)
		case <-x.progress:
			if due == nil {
				due = time.After(x.r.opts.ProgressEvery - time.Since(saved))
			}
			continue
		case <-due:
			due, saved = nil, time.Now()
			x.saveProgress()
			continue
		case key := <-x.overdue:
			x.answerOverdue(key)
		case <-watch.Changed():
		case <-recheck.C:
			if _, waits := x.flight.Ahead(); waits {
				x.saveProgress()
			}
		case <-expired.C:
			x.flight.Cancel(errExpired)
			return
		}
		if !x.sync() {
			return
		}
	}
}

// timerAt fires at a moment of the given clock; never for the zero moment.
func timerAt(at, now time.Time) *time.Timer {
	t := time.NewTimer(max(at.Sub(now), 0))
	if at.IsZero() {
		t.Stop()
	}
	return t
}

// saveProgress shows how far the call is. A write that fails is not missed: the
// next one says more.
func (x *run) saveProgress() {
	text := x.statusMessage()
	_, _ = x.update(func(rec *taskroute.Record) error { return rec.Progress(text, x.r.opts.Now()) })
}

// askClient puts a further question into the record.
func (x *run) askClient(a *ask) {
	var key string
	_, err := x.update(func(rec *taskroute.Record) (err error) {
		key, err = askOn(rec, a, x.r.opts.Now())
		return err
	})
	if err != nil {
		a.answer <- answer{err: gone}
		return
	}
	x.waitFor(key, a)
}

// sync reads the record for what others have put there: answers, a wish to
// cancel, another holder. It reports whether the run goes on.
func (x *run) sync() bool {
	rec, err := x.read()
	switch {
	case errors.Is(err, taskroute.ErrFenced), errors.Is(err, taskroute.ErrTerminal), errors.Is(err, taskroute.ErrNotFound):
		x.flight.Cancel(errLost)
		x.r.metrics.fenced.Inc()
		return false
	case err != nil:
		return true // the store is away; the call goes on
	}
	x.deliver(rec)
	if !rec.State.CancelledAt.IsZero() {
		x.cancel()
		return false
	}
	return true
}

func (x *run) read() (*taskroute.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), x.r.opts.StoreTimeout)
	defer cancel()
	now := *x.r.holder.Load()
	rec, err := x.r.store.UpdateHeld(ctx, x.id, x.holder, x.epoch, func(rec *taskroute.Record) error {
		if now == x.holder {
			return nil
		}
		return rec.Reclaim(now, x.r.opts.Now())
	})
	if err == nil {
		x.hold(rec)
	}
	return rec, err
}

// deliver hands answers to those who wait for them.
func (x *run) deliver(rec *taskroute.Record) {
	for _, q := range rec.Input.Questions {
		if a := x.pending[q.Key]; a != nil && q.Answer != nil {
			a.answer <- answer{result: q.Answer}
			delete(x.pending, q.Key)
		}
	}
	if len(x.pending) == 0 {
		x.startClocks()
	}
}

// cancel tells the upstream, waits a moment for that, and ends the record
// whatever the upstream did: some never answer.
func (x *run) cancel() {
	x.flight.Cancel(errCancelled)
	select {
	case end := <-x.ended:
		x.settle(end)
	case <-time.After(x.r.opts.CancelGrace):
		x.settle(ended{err: errCancelled})
	}
}

// settle writes how the call ended.
func (x *run) settle(end ended) {
	now := x.r.opts.Now
	switch {
	case errors.Is(end.err, errExpired), errors.Is(end.err, errLost):
		return
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
	case isInputRequired(end.reply):
		x.park(end.reply.Result)
	default:
		result, err := wire.ModernResult("tools/call", end.reply.Result, nil)
		if err != nil {
			x.settle(ended{err: &upstream.Error{Kind: upstream.Broken, MayHaveRun: true, Err: err}})
			return
		}
		x.end(func(rec *taskroute.Record) error { return rec.Complete(result, now()) })
	}
}

func (x *run) end(transition func(*taskroute.Record) error) {
	rec, err := x.update(transition)
	if err != nil {
		x.r.metrics.dropped.Inc()
		x.r.log.Warn("the end of a call was not recorded", zap.String("upstream", x.call.Upstream), zap.Error(err))
		return
	}
	x.r.metrics.ended.WithLabelValues(x.call.Upstream, string(rec.State.Status)).Inc()
}

// update writes a change to the record this run holds, for as long as it takes:
// the store may be away for a while, and the result is not to be lost for it.
func (x *run) update(change func(*taskroute.Record) error) (rec *taskroute.Record, err error) {
	err = x.r.persist(x.expires, func(ctx context.Context) (err error) {
		rec, err = x.r.store.UpdateHeld(ctx, x.id, x.holder, x.epoch, change)
		return err
	})
	return rec, err
}

// persist repeats a write until it is done, can never be, or is too late.
func (r *Runner) persist(until time.Time, write func(context.Context) error) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), r.opts.StoreTimeout)
		err := write(ctx)
		cancel()
		if err == nil || final(err) || (!until.IsZero() && !r.opts.Now().Before(until)) {
			return err
		}
		r.metrics.retries.Inc()
		select {
		case <-time.After(wait):
		case <-r.quit:
			return err
		}
	}
}

func final(err error) bool {
	return errors.Is(err, taskroute.ErrTerminal) || errors.Is(err, taskroute.ErrFenced) || errors.Is(err, taskroute.ErrNotFound)
}
