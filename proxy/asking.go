package proxy

import (
	"cmp"
	"context"

	"taskgate/policy"
	"taskgate/taskrun"
	"taskgate/wire"
)

// unruled is the decision for calls that are no tools/call, of which policy says
// nothing: what is built in, and never a task.
func unruled() policy.Decision {
	d := policy.Default().Decide(policy.Query{})
	d.Task, d.Input = policy.Forbidden, policy.InputMRTR
	return d
}

// callOther is prompts/get and resources/read, during which an upstream may ask
// as well (basic/patterns/mrtr, Supported Requests).
func (h *Handler) callOther(ctx context.Context, x *exchange, out *responder) (wire.Raw, error) {
	defer out.holdOpen().Stop()
	ctx, cancel := context.WithTimeoutCause(ctx, h.opts.ForwardTimeout, errForwardTimeout)
	defer cancel()
	name, _ := wire.String(x.params.Get("name"))
	uri, _ := wire.String(x.params.Get("uri"))
	o, err := h.run(ctx, x, out, taskrun.Call{Method: x.msg.Method, Tool: cmp.Or(name, uri), Params: x.params, Decision: h.unruled})
	if err != nil {
		return nil, err
	}
	result, err := outcome(x.msg.Method, o)
	if err == nil && o.Reply != nil && o.Reply.Streamed {
		out.asEvent()
	}
	return result, err
}
