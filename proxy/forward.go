package proxy

import (
	"context"
	"errors"

	"taskgate/reqcoord"
	"taskgate/taskrun"
	"taskgate/upstream"
	"taskgate/wire"
)

var errForwardTimeout = errors.New("upstream did not answer in time")

// forward passes a request through that is none of the gateway's own.
func (h *Handler) forward(ctx context.Context, x *exchange, out *responder) (wire.Raw, error) {
	defer out.holdOpen().Stop()
	reply, err := h.send(ctx, x, relay{x.observer(out)})
	if unknownThere(x.msg.Method, err) {
		return notFound(ctx, x, out)
	}
	if err != nil {
		return nil, err
	}
	if x.msg.Method == "tools/list" && reply.Error == nil {
		x.route.tools.learn(x.params.Get("cursor"), reply.Result)
	}
	result, err := response(x.msg.Method, reply)
	if err == nil && x.msg.Method == "tools/list" {
		result = h.listForJobs(ctx, x, result)
	}
	if err == nil && reply.Streamed {
		out.asEvent() // what is only passed on comes as it came
	}
	return result, err
}

// unknownThere tells a refusal of a method that the upstream does not know: some
// servers answer that with an HTTP status alone. It is not asked of methods of
// the protocol, whose refusal may mean anything.
func unknownThere(method string, err error) bool {
	var up *upstream.Error
	return !wire.IsStandard(method) && errors.As(err, &up) && up.Kind == upstream.Refused && !up.MayHaveRun
}

// send sends a request other than tools/call. It ends with the client's
// connection or the time for it.
func (h *Handler) send(ctx context.Context, x *exchange, to upstream.Handler) (upstream.Reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.opts.ForwardTimeout, errForwardTimeout)
	defer cancel()
	call, callCtx := h.coord.Begin(ctx, reqcoord.About{
		Upstream: x.route.Name, Method: x.msg.Method, Principal: x.owner().String(),
	})
	defer call.End()
	defer context.AfterFunc(ctx, func() { call.Cancel(context.Cause(ctx)) })()
	if err := call.Admit(callCtx); err != nil {
		return upstream.Reply{}, err
	}
	reply, err := x.route.Caller.Call(callCtx, upstream.Request{
		ID: call.ID, Method: x.msg.Method, Params: x.params,
		ClientInfo: x.meta.ClientInfo, Capabilities: x.meta.Capabilities, LogLevel: x.meta.LogLevel,
		Principal: x.owner().String(), Header: x.keptHeaders(),
	}, to)
	if cause := context.Cause(callCtx); err != nil && cause != nil {
		err = cause
	}
	return reply, err
}

// relay is the upstream.Handler of a forwarded request.
type relay struct{ observe taskrun.Observer }

func (r relay) Progress(params wire.Object)           { r.observe("notifications/progress", params.Bytes()) }
func (r relay) Notify(method string, params wire.Raw) { r.observe(method, params) }

// Ask refuses: a question is answered during the calls that can be held for it
// (basic/patterns/mrtr, Supported Requests).
func (r relay) Ask(context.Context, upstream.Question) (wire.Raw, *wire.Error) {
	return nil, wire.Errorf(wire.CodeMethodNotFound, "questions are answered during tools/call, prompts/get and resources/read only")
}
