package proxy

import (
	"context"
	"time"

	"taskgate/tracing"
)

// beginSpan begins the span of a request as soon as it is known whose child it
// is. What was refused before there was an endpoint has none.
func (h *Handler) beginSpan(ctx context.Context, x *exchange, began time.Time) context.Context {
	if x == nil {
		return ctx
	}
	ctx, x.span = h.opts.Tracing.Request(ctx, tracing.Request{
		Began: began, Header: x.header, Meta: x.params.Get("_meta"), Method: x.msg.Method,
	})
	return ctx
}

// endSpan ends it with how the request was answered.
func (x *exchange) endSpan(end ending) {
	if x == nil {
		return
	}
	tracing.Answered(x.span, x.route.Name, end.status, end.rpc.Code, string(x.trail.Outcome))
	x.span.End()
}
