package taskrun

import (
	"context"
	"errors"
	"fmt"

	"taskgate/upstream"
	"taskgate/wire"
)

// maxAgain is how often a call is sent again because the upstream answers with
// nothing but a requestState.
const maxAgain = 10

// outcome is what comes of a request that was sent. A result that asks nothing
// and only wants its requestState back is answered here and at once, when there
// may be a task: its client has nothing to say to that, and no request to say
// it with.
func (x *run) outcome(ctx context.Context, params wire.Object, sent upstream.Pending[upstream.Reply]) ended {
	end := x.readReply(sent.Outcome())
	for range maxAgain {
		state, only := stateOnly(end)
		if !only || !x.call.mayBecomeTask() {
			break
		}
		x.idle.refill()
		end = x.readReply(x.send(ctx, x.flight.NextID(), withState(params, state)).Outcome())
	}
	return end
}

// begin sends the request when it is its turn, or finds again what runs already.
func (x *run) begin(ctx context.Context, params wire.Object) upstream.Pending[upstream.Reply] {
	if x.resuming != nil {
		x.hasTurn.Store(true)
		return upstream.Later(func() (upstream.Reply, error) { return x.resume(ctx, params) })
	}
	admit := x.flight.Admit
	if x.promised {
		admit = x.flight.AdmitPromised
	}
	if err := admit(ctx, x.call.shares()...); err != nil {
		return upstream.Failed[upstream.Reply](err)
	}
	x.hasTurn.Store(true)
	return x.send(ctx, x.flight.ID, params)
}

// stateOnly tells an InputRequiredResult that has a requestState and no
// inputRequests (basic/patterns/mrtr).
func stateOnly(end ended) (state wire.Raw, only bool) {
	if end.err != nil || end.kind != wire.ResultInputRequired {
		return nil, false
	}
	o, err := wire.ParseObject(end.reply.Result)
	if err != nil {
		return nil, false
	}
	requests, _ := o.Object("inputRequests")
	_, has := wire.String(o.Get("requestState"))
	return o.Get("requestState"), has && len(requests) == 0
}

// withState repeats params with a requestState, which stands for all answers.
func withState(params wire.Object, state wire.Raw) wire.Object {
	return params.Without("inputResponses").With("requestState", state)
}

// readReply refuses a task that the upstream made of its own: no request asks
// for one, and nobody could reach it.
func (x *run) readReply(reply upstream.Reply, err error) ended {
	if err == nil {
		reply = x.askForURLs(reply)
	}
	if err != nil || reply.Result == nil {
		return ended{reply: reply, err: err}
	}
	kind := wire.ResultType(reply.Result)
	switch {
	case !wire.IsObject(reply.Result):
		err = errors.New("not a JSON object")
	case kind == wire.ResultTask:
		err = errors.New("it made a task, though nobody asked it to")
	default:
		return ended{reply: reply, kind: kind}
	}
	return ended{err: &upstream.Error{Kind: upstream.Broken, MayHaveRun: true, Err: fmt.Errorf("result: %w", err)}}
}

// askForURLs makes a question of the legacy error by which a tool says that the
// user has to visit some URLs before it is called again: in 2026-07-28 that is
// an InputRequiredResult. The error stays for who cannot be asked.
func (x *run) askForURLs(reply upstream.Reply) upstream.Reply {
	requests := wire.URLElicitations(reply.Error)
	if len(requests) == 0 {
		return reply
	}
	for _, m := range requests {
		if _, err := readQuestion(m, x.call.Meta.Capabilities); err != nil {
			return reply
		}
	}
	reply.Error = nil
	reply.Result = wire.Object{}.With("resultType", wire.Quote(wire.ResultInputRequired)).
		With("inputRequests", requests.Bytes()).Bytes()
	return reply
}

// failedForWant returns the -32021 error when the call has failed after the
// upstream was refused a question of a kind that the client did not declare. A
// tool that gets on without the answer has its result.
func failedForWant(reply upstream.Reply) *wire.Error {
	if reply.Undeclared == nil {
		return nil
	}
	if reply.Error == nil {
		o, _ := wire.ParseObject(reply.Result)
		if string(o.Get("isError")) != "true" {
			return nil
		}
	}
	return wire.MissingCapability(reply.Undeclared)
}
