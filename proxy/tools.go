package proxy

import (
	"context"
	"strings"

	"go.uber.org/zap"

	"taskgate/policy"
	"taskgate/taskrun"
	"taskgate/tracing"
	"taskgate/upstream"
	"taskgate/wire"
)

// callTool is tools/call: policy decides, taskrun runs.
func (h *Handler) callTool(ctx context.Context, x *exchange, out *responder) (wire.Raw, error) {
	tool, ok := wire.String(x.params.Get("name"))
	if !ok {
		return nil, badRequest(wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.name is missing or no string"))
	}
	facts := h.factsOf(ctx, x, tool)
	if x.asks {
		wire.SetParamHeaders(x.header, facts.schema, x.params.Get("arguments"))
	}
	if rpc := wire.CheckParamHeaders(x.header, facts.schema, x.params.Get("arguments")); rpc != nil {
		return nil, badRequest(rpc)
	}
	decision := h.opts.Decide(h.query(x, tool, facts))
	x.traceDecision(tool, decision)
	h.noteDecision(ctx, x, tool, decision)
	if err := h.authorize(x, decision); err != nil {
		return nil, err
	}
	decision, err := x.wanted(decision)
	if err != nil {
		return nil, err
	}
	decision, job := x.asJob(decision)
	defer out.holdOpen().Stop() // not before: what is refused has a status of its own
	o, err := h.run(ctx, x, out, taskrun.Call{Tool: tool, Params: x.params.Without("task"), Decision: decision})
	if err != nil {
		return nil, err
	}
	result, err := outcome(x.msg.Method, o)
	if job && o.Task != nil {
		result = x.jobStarted(o.Task)
	}
	if _, held := x.heldState(); held { // it goes on as was decided when it began
		return result, err
	}
	return h.withReason(result, decision), err
}

// heldState is the requestState of a call that is held here, on its retry.
func (x *exchange) heldState() (state string, ok bool) {
	state, ok = wire.String(x.params.Get("requestState"))
	return state, ok && taskrun.OwnsState(state)
}

// run runs a call, or goes on with one that is held.
func (h *Handler) run(ctx context.Context, x *exchange, out *responder, call taskrun.Call) (o taskrun.Outcome, err error) {
	defer func() { x.traceOutcome(o) }()
	call.Owner, call.Upstream, call.Meta, call.Header = x.owner(), x.route.Name, x.meta, x.keptHeaders()
	call.Origin = tracing.Origin(ctx)
	if state, held := x.heldState(); held {
		responses, err := retryResponses(x.params)
		if err != nil {
			return o, err
		}
		return h.runner.Resume(ctx, call, state, responses)
	}
	return h.runner.Call(ctx, call, x.observer(out))
}

// noteDecision says why a call is treated as it is. Rules are written by
// operators, so their names are few enough for a label.
func (h *Handler) noteDecision(ctx context.Context, x *exchange, tool string, d policy.Decision) {
	h.metrics.decided.count(decisionLabels{x.route.Name, d.Rule})
	h.opts.Tracing.Decided(ctx, x.route.Name, tool, d)
	if entry := h.opts.Log.Check(zap.DebugLevel, "decided"); entry != nil {
		entry.Write(zap.String("upstream", x.route.Name), zap.String("tool", tool), zap.String("rule", d.Rule), zap.String("source", d.Source),
			zap.String("task", string(d.Task)), zap.Duration("promoteAfter", d.PromoteAfter), zap.Bool("declared", x.meta.Capabilities.DeclaresTasks()))
	}
}

// retryResponses may be missing on a retry: it is then asked again.
func retryResponses(params wire.Object) (wire.Object, error) {
	if params.Get("inputResponses") == nil {
		return nil, nil
	}
	return readResponses(params)
}

// factsOf is what is known of a tool. Of one that is not known the upstream is
// asked, if it is time.
func (h *Handler) factsOf(ctx context.Context, x *exchange, tool string) toolFacts {
	return x.route.tools.facts(ctx, tool, func(ctx context.Context) (wire.Raw, error) { return h.listTools(ctx, x) })
}

// listTools asks the upstream what its tools are, as the caller would. The call
// that wants to know does not wait long for it.
func (h *Handler) listTools(ctx context.Context, x *exchange) (wire.Raw, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opts.InfoWait)
	defer cancel()
	list := *x
	list.msg.Method, list.params = "tools/list", wire.Object{}
	reply, err := h.send(ctx, &list, relay{func(string, wire.Raw) {}})
	return reply.Result, err
}

func (h *Handler) query(x *exchange, tool string, facts toolFacts) policy.Query {
	q := policy.Query{
		Upstream: x.route.Name, Tool: tool, Arguments: x.params.Get("arguments"), Annotations: facts.annotations,
		ClientInfo: x.meta.ClientInfo, Capabilities: x.meta.Capabilities.Raw(),
		Tenant: x.identity.Tenant, Subject: x.identity.Subject,
		TaskSupport: facts.taskSupport, Pace: h.opts.Pace(x.route.Name, tool),
	}
	for _, name := range h.opts.PolicyHeaders {
		if v := x.header.Get(name); v != "" {
			if q.Headers == nil {
				q.Headers = map[string]string{}
			}
			q.Headers[strings.ToLower(name)] = v
		}
	}
	return q
}

// outcome is the result of a call in each of its three forms.
func outcome(method string, o taskrun.Outcome) (wire.Raw, error) {
	switch {
	case o.Task != nil:
		return o.Task.Wire().CreateResult(), nil
	case o.Input != nil:
		return wire.Object{}.With("resultType", wire.Quote(wire.ResultInputRequired)).
			With("inputRequests", o.Input.Requests.Bytes()).
			With("requestState", wire.Quote(o.Input.State)).Bytes(), nil
	}
	return response(method, *o.Reply)
}

// response is an upstream's own response as a modern client wants it.
func response(method string, reply upstream.Reply) (wire.Raw, error) {
	if reply.Error != nil {
		return nil, &upstreamFailure{wire.ModernError(reply.Error)}
	}
	result, err := wire.ModernResult(method, reply.Result, nil)
	if err != nil {
		return nil, &upstream.Error{Kind: upstream.Broken, MayHaveRun: true, Err: err}
	}
	return result, nil
}

// observer relays what belongs to a call that its client still waits for:
// progress under the client's own token, if it gave one, and log messages as
// severe as it asked for.
func (x *exchange) observer(out *responder) taskrun.Observer {
	return func(method string, params wire.Raw) {
		x.route.tools.note(method)
		switch method {
		case "notifications/progress":
			if x.meta.ProgressToken == nil {
				return
			}
			p, err := wire.ParseObject(params)
			if err != nil {
				return
			}
			params = p.With("progressToken", x.meta.ProgressToken).Bytes()
		case "notifications/message":
			if x.meta.LogLevel == "" || !wire.LogsAt(wire.LogLevel(params), x.meta.LogLevel) {
				return
			}
		case wire.NotePoll:
			if !x.asks { // a client of 2026-07-28 cannot come back
				return
			}
		default:
			return
		}
		out.notify(method, params)
	}
}
