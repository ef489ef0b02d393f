package taskrun

import (
	"context"
	"slices"
	"time"

	"taskgate/taskroute"
	"taskgate/tracing"
	"taskgate/wire"
)

// attend waits, in the client's own goroutine, for the first thing to tell it.
// callCtx ends when the upstream is done with the call.
func (x *run) attend(ctx, callCtx context.Context, promoteAfter time.Duration) (Outcome, error) {
	promote := promoteTimer(&x.call, promoteAfter)
	defer promote.Stop()
	for {
		select {
		case <-x.ended:
			return x.answered(ctx, x.how)
		case <-x.asked:
			if out, ok := x.question(ctx); ok {
				return out, nil
			}
		case <-promote.C:
			if out, ok := x.promote(ctx, callCtx); ok {
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
func promoteTimer(c *Call, after time.Duration) *time.Timer {
	t := time.NewTimer(max(after, time.Millisecond))
	if !c.mayBecomeTask() {
		t.Stop()
	}
	return t
}

// promote turns the running call into a task. It fails when the store cannot
// keep the task: the call then stays synchronous (contract 3). An answer that
// comes meanwhile does not wait for the store.
func (x *run) promote(ctx, callCtx context.Context) (Outcome, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(callCtx, cancel)()
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
	x.keep()
}

// answered is the end of a call that its client has waited for.
func (x *run) answered(ctx context.Context, end *ended) (Outcome, error) {
	if end.err != nil {
		return Outcome{}, end.err
	}
	if missing := failedForWant(end.reply); missing != nil {
		return Outcome{}, missing
	}
	if end.kind != wire.ResultInputRequired {
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
	x.span.AddEvent(tracing.Parked)
	x.drop() // the answers may come to any replica
	x.r.watchParked(rec.ID, x.call.Decision.InputTimeout.After)
	return Outcome{Task: rec}, nil
}

// question is the first question of a legacy upstream. It makes the call a
// record: a task, or one that is held under a requestState.
func (x *run) question(ctx context.Context) (Outcome, bool) {
	kind := taskroute.Task
	if !x.call.asksIntoTask() {
		kind = taskroute.Held
		<-time.After(gatherFor)
	}
	asks := x.firstAsks()
	if len(asks) == 0 {
		return Outcome{}, false
	}
	var keys []string
	var ticket string
	rec, err := x.enroll(ctx, kind, func(rec *taskroute.Record) (err error) {
		if keys, err = askOn(rec, asks, x.r.opts.Now()); err == nil && kind == taskroute.Held {
			ticket = issueTicket(rec, &x.call)
		}
		return err
	})
	if err != nil {
		for _, a := range asks {
			a.answer <- answer{err: wire.Errorf(wire.CodeInternal, "the question cannot be kept right now")}
		}
		return Outcome{}, false
	}
	x.span.AddEvent(tracing.Asked)
	for i, a := range asks {
		x.waitFor(keys[i], a)
	}
	x.detach()
	if kind == taskroute.Task {
		return Outcome{Task: rec}, true
	}
	return Outcome{Input: &InputRequired{Requests: rec.PendingInputs(), State: requestState(rec.ID, ticket)}}, true
}

// checkQuestions bounds what an upstream can put into a record.
func (r *Runner) checkQuestions(n int) *wire.Error {
	if limit := r.opts.MaxQuestions; limit > 0 && n > limit {
		return wire.Errorf(wire.CodeInternal, "too many questions want an answer: the limit is %d", limit)
	}
	return nil
}

// gatherFor is how long a question waits for others before it goes out as an
// InputRequiredResult, so that the client gets those that an upstream asks at the
// same time, each in a message of its own, together and not round by round. In a
// task they need not wait: every tasks/get shows all there are.
const gatherFor = 20 * time.Millisecond

// ask leaves a question for who decides.
func (x *run) ask(a *ask) {
	x.asking.Lock()
	x.asks = append(x.asks, a)
	x.asking.Unlock()
	select {
	case x.asked <- struct{}{}:
	default:
	}
	x.wake()
}

// takeAsks is what is to be asked, but for what the upstream wants to know no more.
func (x *run) takeAsks() []*ask {
	x.asking.Lock()
	defer x.asking.Unlock()
	asks := slices.DeleteFunc(x.asks, func(a *ask) bool { return closed(a.gone) })
	x.asks = nil
	return asks
}

// firstAsks are those that a record begins with; what is too much at once is refused.
func (x *run) firstAsks() (asks []*ask) {
	for _, a := range x.takeAsks() {
		if err := x.r.checkQuestions(len(asks) + 1); err != nil {
			a.answer <- answer{err: err}
			continue
		}
		asks = append(asks, a)
	}
	return asks
}

// askOn adds the questions to the record and returns their keys, in order.
func askOn(rec *taskroute.Record, asks []*ask, now time.Time) ([]string, error) {
	questions := make([]taskroute.Question, len(asks))
	for i, a := range asks {
		questions[i] = taskroute.Question{UpstreamID: a.ID, Method: a.Method, Params: a.Params}
	}
	return rec.Ask(questions, now)
}

// waitFor notes who waits for the answer.
func (x *run) waitFor(key string, a *ask) {
	if x.pending == nil {
		x.pending = map[string]*ask{}
	}
	x.pending[key] = a
	x.pauseClocks()
	x.limitAnswer(a)
}
