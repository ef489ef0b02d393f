package taskrun

import (
	"context"
	"errors"
	"time"

	"taskgate/taskroute"
	"taskgate/tracing"
)

// expire gives the call up, since nobody may see its outcome any more.
func (x *run) expire() {
	x.span.AddEvent(tracing.Expired)
	x.flight.Cancel(errExpired)
}

// showProgress shows newer progress as soon as it may be.
func (x *run) showProgress() {
	wait := x.r.opts.ProgressEvery - time.Since(x.saved)
	switch {
	case wait <= 0:
		x.due, x.saved = false, time.Now()
		x.saveProgress()
	case !x.due:
		x.due = true
		time.AfterFunc(wait, func() { x.tell(advance) })
	}
}

// saveProgress shows how far the call is. A write that fails is not missed: the
// next one says more.
func (x *run) saveProgress() {
	text := x.statusMessage()
	_, _ = x.update(func(rec *taskroute.Record) error {
		if err := rec.Keep(x.lastToken()); err != nil {
			return err
		}
		return rec.Progress(text, x.r.opts.Now())
	})
}

// askClient puts a further question into the record.
func (x *run) askClient(a *ask) {
	if x.askedBefore(a) {
		return
	}
	if err := x.r.checkQuestions(len(x.pending) + 1); err != nil {
		a.answer <- answer{err: err}
		return
	}
	var keys []string
	rec, err := x.update(func(rec *taskroute.Record) (err error) {
		if rec.State.Rounds > x.rounds { // only this run asks: an earlier try has landed
			keys = []string{rec.Input.Questions[len(rec.Input.Questions)-1].Key}
			return nil
		}
		if keys, err = askOn(rec, []*ask{a}, x.r.opts.Now()); err != nil {
			return err
		}
		return rec.Keep(x.lastToken())
	})
	if err != nil {
		a.answer <- answer{err: gone}
		return
	}
	x.rounds = rec.State.Rounds
	x.span.AddEvent(tracing.Asked)
	x.waitFor(keys[0], a)
}

// withdraw takes back what the upstream no longer wants to know.
func (x *run) withdraw() {
	for key, a := range x.pending {
		if !closed(a.gone) {
			continue
		}
		x.forget(key)
		// A failed write is noticed by whoever reads the record next.
		_, _ = x.update(func(rec *taskroute.Record) error { return rec.Withdraw(key, x.r.opts.Now()) })
	}
}

// sync reads the record for what others have put there: answers, a wish to
// cancel, another holder. It reports whether the run goes on.
func (x *run) sync() bool {
	rec, err := x.read()
	switch {
	case errors.Is(err, taskroute.ErrNotFound): // collected
		x.expire()
		return false
	case notHeld(err), errors.Is(err, taskroute.ErrNewer):
		x.flight.Cancel(x.lost(err))
		x.span.AddEvent(tracing.Lost)
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
	ctx, cancel := x.r.briefly(context.Background())
	defer cancel()
	holder := x.r.holder()
	rec, err := x.try(ctx, func(rec *taskroute.Record) error {
		if holder == x.holder {
			return nil
		}
		return rec.Reclaim(holder, x.r.opts.Now())
	})
	if err == nil {
		x.hold(rec)
	}
	return rec, err
}

// try changes the record once, as its holder. A reclaim whose reply was lost is
// known again: else it would look as if somebody else had the record.
func (x *run) try(ctx context.Context, change func(*taskroute.Record) error) (*taskroute.Record, error) {
	rec, err := x.r.store.UpdateHeld(ctx, x.id, x.holder, x.epoch, change)
	if errors.Is(err, taskroute.ErrFenced) && rec.State.Holder == x.r.holder() && rec.State.Epoch == x.epoch+1 {
		x.hold(rec)
		return x.r.store.UpdateHeld(ctx, x.id, x.holder, x.epoch, change)
	}
	return rec, err
}

// deliver hands answers to those who wait for them.
func (x *run) deliver(rec *taskroute.Record) {
	for _, q := range rec.Input.Questions {
		if a := x.pending[q.Key]; a != nil && q.Answer != nil {
			a.answer <- answer{result: q.Answer}
			x.forget(q.Key)
		}
	}
}

// forget undoes waitFor.
func (x *run) forget(key string) {
	delete(x.pending, key)
	if len(x.pending) == 0 {
		x.startClocks()
	}
}

// cancel tells the upstream, waits a moment for that, and ends the record
// whatever the upstream did: some never answer.
func (x *run) cancel() {
	x.flight.Cancel(errCancelled)
	select {
	case <-x.ended:
		x.settle(x.how)
	case <-time.After(x.r.opts.CancelGrace):
		x.settle(&ended{err: errCancelled})
	}
}
