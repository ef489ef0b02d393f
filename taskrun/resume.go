package taskrun

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"taskgate/taskroute"
	"taskgate/tracing"
	"taskgate/upstream"
	"taskgate/wire"
)

// Keep implements upstream.Keeper. The record has the token with its next write.
func (x *run) Keep(token wire.Raw) {
	x.token.Store(&token)
	x.tell(advance)
}

func (x *run) lastToken() wire.Raw {
	if token := x.token.Load(); token != nil {
		return *token
	}
	return nil
}

// continueFrom takes up what an earlier holder of the record has left, if it
// has left a call.
func (x *run) continueFrom(rec *taskroute.Record) {
	if rec.State.Resume == nil {
		return
	}
	x.resuming = rec.State.Resume
	x.token.Store(&x.resuming)
	x.message.Store(&rec.State.StatusMessage)
	x.known = map[string]string{}
	for _, q := range rec.Input.Questions {
		if q.UpstreamID != "" && !q.Withdrawn {
			x.known[q.UpstreamID] = q.Key
		}
	}
}

// resume waits for no turn: the upstream runs the call already.
func (x *run) resume(ctx context.Context, params wire.Object) (upstream.Reply, error) {
	reply, err := x.r.upstreams[x.call.Upstream].Resume(ctx, x.resuming, x.call.toUpstream(x.flight.ID, x.flight.Principal, params), x)
	if err == nil {
		x.r.metrics.resumed.Inc()
	}
	return reply, err
}

// askedBefore recognizes a question that is in the record already: it is not
// asked twice, and may have been answered meanwhile.
func (x *run) askedBefore(a *ask) bool {
	key, ok := x.known[a.ID]
	switch {
	case ok:
		delete(x.known, a.ID)
		x.waitFor(key, a)
	case a.Method == "": // its holder died before it could write it down
		a.answer <- answer{err: gone}
		ok = true
	}
	return ok
}

// errSentAgain ends a run whose record another one has.
var errSentAgain = errors.New("the call was sent again")

// orAgain is what becomes of a call that could not be found again: it is sent
// again if policy lets it, else nobody knows how it ended.
func (x *run) orAgain(end *ended) *ended {
	if x.resuming == nil || !errors.As(end.err, new(*upstream.Error)) {
		return end
	}
	x.span.AddEvent(tracing.NotFound)
	x.r.log.Info("a call could not be found again", zap.String("upstream", x.call.Upstream), upstream.LogError(end.err))
	if !x.again.Load() {
		return &ended{err: errHolderLost}
	}
	if closed(x.r.draining) {
		return &ended{err: errSentAgain} // by whoever takes the record next
	}
	rec, err := x.update(func(rec *taskroute.Record) error {
		if !rec.State.CancelledAt.IsZero() {
			return rec.Cancel("Cancelled at the owner's request.", x.r.opts.Now())
		}
		return rec.Restart(x.holder, x.r.opts.Now())
	})
	if err == nil && !rec.State.Status.Terminal() {
		x.r.metrics.reruns.Inc()
		x.r.start(context.Background(), x.call, rec, x.call.Params, tracing.Rerun)
	}
	return &ended{err: errSentAgain}
}

// lost is why a run ends whose record somebody else has now, or has ended. Who
// has it may have found the call again, and goes on with it.
func (x *run) lost(err error) error {
	if errors.Is(err, taskroute.ErrFenced) && x.token.Load() != nil {
		return errTaken
	}
	return errLost
}

// leave ends the run of a call that somebody else can go on with: because it can
// be found again, or because policy lets it be sent again.
func (x *run) leave() {
	if x.kept.Load() && (x.token.Load() != nil || x.again.Load()) {
		x.flight.Cancel(errLeft)
	}
}

// handOver writes down where the call is found. Should that fail, what was
// written last has to do.
func (x *run) handOver() {
	_, _ = x.update(func(rec *taskroute.Record) error { return rec.Keep(x.lastToken()) })
	x.r.metrics.handedOver.Inc()
	x.span.AddEvent(tracing.HandedOver)
}

// stopOrphan fulfils the wish to cancel a call whose holder is dead, and tells
// the upstream if the call can be found again.
func (r *Runner) stopOrphan(ctx context.Context, rec *taskroute.Record, dead string, call Call) error {
	if err := r.fail(ctx, &call, rec.ID, dead, errHolderLost); err != nil || rec.State.Resume == nil {
		return err
	}
	r.busy.Go(func() {
		over, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel() // so that resuming it is cancelling it
		flight, _ := r.coord.Begin(ctx, about(&call))
		defer flight.End()
		_, _ = r.upstreams[call.Upstream].Resume(over, rec.State.Resume, call.toUpstream(flight.ID, flight.Principal, call.Params), nobody{})
	})
	return nil
}

// nobody is the Handler of a call that is only cancelled.
type nobody struct{}

func (nobody) Progress(wire.Object)    {}
func (nobody) Notify(string, wire.Raw) {}
func (nobody) Ask(context.Context, upstream.Question) (wire.Raw, *wire.Error) {
	return nil, gone
}
