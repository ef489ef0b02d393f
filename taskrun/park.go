package taskrun

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"taskgate/policy"
	"taskgate/taskroute"
	"taskgate/tracing"
	"taskgate/upstream"
	"taskgate/wire"
)

// readInputRequired takes a modern upstream's InputRequiredResult apart
// (basic/patterns/mrtr). A question of a kind that the client did not declare
// is an error: it must not be asked, and nobody else can answer it.
func readInputRequired(result wire.Raw, caps wire.Capabilities) ([]taskroute.Question, *string, error) {
	o, err := wire.ParseObject(result)
	if err != nil {
		return nil, nil, fmt.Errorf("input_required result: %w", err)
	}
	var state *string
	if s, ok := wire.String(o.Get("requestState")); ok {
		state = &s
	}
	requests, err := wire.ParseObject(o.Get("inputRequests"))
	if err != nil {
		return nil, state, nil
	}
	questions := make([]taskroute.Question, 0, len(requests))
	for _, m := range requests {
		q, err := readQuestion(m, caps)
		if err != nil {
			return nil, nil, err
		}
		questions = append(questions, q)
	}
	return questions, state, nil
}

func readQuestion(m wire.Member, caps wire.Capabilities) (taskroute.Question, error) {
	o, err := wire.ParseObject(m.Value)
	if err != nil {
		return taskroute.Question{}, fmt.Errorf("input request %q: %w", m.Name, err)
	}
	method, _ := wire.String(o.Get("method"))
	params := o.Get("params")
	if missing := caps.Answers(method, params); missing != nil {
		return taskroute.Question{}, wire.MissingCapability(missing)
	}
	return taskroute.Question{UpstreamKey: m.Name, Method: method, Params: params}, nil
}

// park puts a modern upstream's further questions into the record. From here on
// nobody holds it; whoever gets the last answer goes on.
func (x *run) park(result wire.Raw) {
	questions, state, err := readInputRequired(result, x.call.Meta.Capabilities)
	if tooMany := x.r.checkQuestions(len(questions)); tooMany != nil {
		err = tooMany
	}
	if err == nil && len(questions) == 0 {
		err = &upstream.Error{Kind: upstream.Broken, MayHaveRun: true, Err: fmt.Errorf("input_required without inputRequests")}
	}
	if err != nil {
		x.settle(&ended{err: err})
		return
	}
	_, err = x.update(func(rec *taskroute.Record) error {
		if !rec.State.CancelledAt.IsZero() { // the wish came first: nobody is to be asked any more
			return rec.Cancel("Cancelled at the owner's request.", x.r.opts.Now())
		}
		return x.parkOn(rec, questions, state)
	})
	if err != nil {
		x.r.log.Warn("a question of the upstream was not recorded", zap.String("upstream", x.call.Upstream), zap.Error(err))
		return
	}
	x.span.AddEvent(tracing.Parked)
	x.r.watchParked(x.id, x.call.Decision.InputTimeout.After)
}

func (x *run) parkOn(rec *taskroute.Record, questions []taskroute.Question, state *string) error {
	now, after := x.r.opts.Now(), x.call.Decision.InputTimeout.After
	if rec.Input.Deadline = (time.Time{}); after > 0 {
		rec.Input.Deadline = now.Add(after)
	}
	return rec.Park(questions, state, now)
}

// request is what the record keeps to send the call again.
func (c *Call) request() taskroute.Request {
	decision, err := c.Decision.Freeze()
	if err != nil {
		decision = nil // a Decision always marshals
	}
	return taskroute.Request{
		Method: c.Method, Params: c.Params.Bytes(), ClientInfo: c.Meta.ClientInfo,
		Capabilities: c.Meta.Capabilities.Raw(), Headers: c.Header, Decision: decision, Origin: c.Origin,
	}
}

// callOf is the call that a record was made of.
func callOf(rec *taskroute.Record) (Call, error) {
	c := Call{
		Owner: rec.State.Owner, Upstream: rec.State.Upstream, Tool: rec.State.Tool,
		Method: rec.Request.Method, Header: http.Header(rec.Request.Headers), Origin: rec.Request.Origin,
		Meta: wire.Meta{Version: wire.Version, ClientInfo: rec.Request.ClientInfo,
			Capabilities: wire.ParseCapabilities(rec.Request.Capabilities)},
	}
	var err error
	if c.Params, err = wire.ParseObject(rec.Request.Params); err != nil {
		return c, fmt.Errorf("stored params: %w", err)
	}
	if c.Decision, err = policy.Thaw(rec.Request.Decision); err != nil {
		return c, fmt.Errorf("stored decision: %w", err)
	}
	return c, nil
}

// runnable is callOf for a call that is to go to its upstream.
func (r *Runner) runnable(rec *taskroute.Record) (Call, error) {
	c, err := callOf(rec)
	if _, configured := r.upstreams[c.Upstream]; err == nil && !configured {
		err = fmt.Errorf("upstream %q is not configured any more", c.Upstream)
	}
	return c, err
}

// proceed goes on with a record whose answers are all in: it claims the record
// and sends the call with them. Of several that try, here and at other
// replicas, one succeeds. A record that has changed since quiet is left to the
// replica that changed it: that one has the client's credentials, and no other
// has.
func (r *Runner) proceed(ctx context.Context, id string, quiet time.Duration) error {
	r.busy.enter()
	defer r.busy.leave()
	if closed(r.draining) {
		return nil // another replica, or the next start, does it
	}
	rec, err := r.load(ctx, id)
	if err != nil {
		return err
	}
	if r.opts.Now().Sub(rec.State.UpdatedAt) < quiet {
		return nil
	}
	call, err := r.runnable(rec)
	if err != nil {
		return r.fail(ctx, &call, id, rec.State.Holder, err)
	}
	claimed, err := r.claim(ctx, rec, func(rec *taskroute.Record, holder string) error {
		if rec.State.Holder != "" || rec.State.Status != taskroute.Working {
			return taskroute.ErrFenced
		}
		return rec.Claim(holder, r.opts.Now())
	})
	if err != nil {
		return err
	}
	r.start(ctx, call, claimed, withAnswers(call.Params, claimed.Input), tracing.Continued)
	return nil
}

// start sends the call of a claimed record, in the background. When many are
// claimed at once they wait for their turns, and none fails for want of room.
// event says for the trace why it is sent.
func (r *Runner) start(ctx context.Context, call Call, claimed *taskroute.Record, params wire.Object, event string) {
	ctx, span := r.beginSpan(ctx, &call)
	span.AddEvent(event)
	x, callCtx := r.newRun(ctx, call, nil)
	x.span = span
	x.promised = true
	x.take(claimed.ID)
	x.hold(claimed)
	x.continueFrom(claimed)
	x.wake() // for what has changed before the record was watched
	r.crew.run(func() { x.dispatch(callCtx, params) })
	x.detach()
}

func (r *Runner) load(ctx context.Context, id string) (*taskroute.Record, error) {
	ctx, cancel := r.briefly(ctx)
	defer cancel()
	return r.store.Load(ctx, id)
}

// claim makes this replica the holder of the record, by take. A claim that may
// have landed is repeated until that is known: else the record would be held by
// somebody who does not run it.
func (r *Runner) claim(ctx context.Context, rec *taskroute.Record, take func(rec *taskroute.Record, holder string) error) (claimed *taskroute.Record, err error) {
	holder, err := r.trustedHolder()
	if err != nil {
		return nil, err
	}
	if _, busy := r.claiming.LoadOrStore(rec.ID, true); busy {
		return nil, taskroute.ErrFenced
	}
	defer r.claiming.Delete(rec.ID)
	tried := false
	err = r.persist(ctx, rec.State.ExpiresAt(), func(ctx context.Context) (err error) {
		claimed, err = r.store.UpdateAny(ctx, rec.ID, func(rec *taskroute.Record) error {
			if tried && rec.State.Holder == holder {
				return nil // it had landed
			}
			return take(rec, holder)
		})
		tried = true
		return err
	})
	return claimed, err
}

// withAnswers makes the retry of basic/patterns/mrtr: the original params, the
// answers under the upstream's own keys, and its requestState. An upstream
// without one remembers nothing, so it gets the answers of all rounds.
func withAnswers(params wire.Object, in taskroute.Input) wire.Object {
	var responses wire.Object
	if earlier, err := wire.ParseObject(params.Get("inputResponses")); err == nil && !in.HasState {
		responses = earlier
	}
	for _, q := range in.Questions {
		if q.UpstreamKey != "" && q.Answer != nil {
			responses = responses.With(q.UpstreamKey, q.Answer)
		}
	}
	params = params.Without("requestState").With("inputResponses", responses.Bytes())
	if in.HasState {
		params = params.With("requestState", wire.Quote(in.State))
	}
	return params
}
