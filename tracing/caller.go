package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"taskgate/upstream"
	"taskgate/wire"
)

// Caller makes a span of each request to the upstream, which is told of it in
// both places: _meta (SEP-414) and, over HTTP, the headers. A nil Tracer leaves
// the upstream as it is.
func (t *Tracer) Caller(name string, to upstream.Caller) upstream.Caller {
	if t == nil {
		return to
	}
	return &caller{Caller: to, tracer: t, name: name}
}

type caller struct {
	upstream.Caller
	tracer *Tracer
	name   string
}

// Call implements upstream.Caller.
func (c *caller) Call(ctx context.Context, r upstream.Request, h upstream.Handler) (upstream.Reply, error) {
	return c.Send(ctx, r, h).Outcome()
}

// Send implements upstream.Caller.
func (c *caller) Send(ctx context.Context, r upstream.Request, h upstream.Handler) upstream.Pending[upstream.Reply] {
	ctx, span := c.begin(ctx, &r)
	return upstream.Then(c.Caller.Send(ctx, r, h), func(reply upstream.Reply, err error) (upstream.Reply, error) {
		ended(span, reply, err)
		span.End()
		return reply, err
	})
}

// Resume implements upstream.Caller.
func (c *caller) Resume(ctx context.Context, token wire.Raw, r upstream.Request, h upstream.Handler) (upstream.Reply, error) {
	ctx, span := c.begin(ctx, &r)
	defer span.End()
	span.AddEvent(Reattached)
	reply, err := c.Caller.Resume(ctx, token, r, h)
	ended(span, reply, err)
	return reply, err
}

func (c *caller) begin(ctx context.Context, r *upstream.Request) (context.Context, trace.Span) {
	var tool string
	if r.Method == methodCall {
		tool, _ = wire.String(r.Params.Get("name"))
	}
	method := wire.Label(r.Method)
	ctx, span := c.tracer.start(ctx, method, c.name, tool,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrMethod.String(method)))
	r.Params, r.Header = intoMeta(ctx, r.Params), intoHeader(ctx, r.Header)
	return ctx, span
}

// ended notes how the upstream has answered, or that it has not.
func ended(span trace.Span, reply upstream.Reply, err error) {
	var failure *upstream.Error
	switch {
	case !span.IsRecording():
	case errors.As(err, &failure):
		broke(span, string(failure.Kind))
	case err != nil:
		broke(span, "cancelled")
	case reply.Error != nil:
		failed(span, wire.ParseError(reply.Error).Code)
	case isError(reply.Result):
		broke(span, "tool_error")
	}
}

func broke(span trace.Span, how string) {
	span.SetAttributes(attrError.String(how))
	span.SetStatus(codes.Error, "")
}

// isError tells a tool result that says of itself that the tool has failed.
func isError(result wire.Raw) bool {
	o, _ := wire.ParseObject(result)
	return string(o.Get("isError")) == "true"
}
