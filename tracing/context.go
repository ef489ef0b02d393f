package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"taskgate/wire"
)

// Members of _meta, and names of headers, that carry the trace context (SEP-414,
// W3C Trace Context). Baggage is nobody's business here and passes as it is.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
)

func extract(from propagation.TextMapCarrier) trace.SpanContext {
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), from))
}

func fromMeta(meta wire.Raw) trace.SpanContext {
	carrier := propagation.MapCarrier{}
	for _, name := range []string{traceparent, tracestate} {
		carrier[name], _ = wire.String(wire.Lookup(meta, name))
	}
	return extract(carrier)
}

// intoMeta is params with the span of ctx named in _meta, in place of what was
// there. A _meta that is no object stays as it is.
func intoMeta(ctx context.Context, params wire.Object) wire.Object {
	meta, ok := params.Object("_meta")
	if !ok && params.Get("_meta") != nil {
		return params
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	meta = meta.Without(traceparent, tracestate)
	for _, name := range []string{traceparent, tracestate} {
		if v := carrier[name]; v != "" {
			meta = meta.With(name, wire.Quote(v))
		}
	}
	return params.With("_meta", meta.Bytes())
}

// intoHeader is a copy of h that names the span of ctx.
func intoHeader(ctx context.Context, h http.Header) http.Header {
	out := h.Clone()
	if out == nil {
		out = http.Header{}
	}
	for _, name := range []string{traceparent, tracestate} {
		out.Del(name)
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(out))
	return out
}
