// Package tracing makes the gateway's spans: what they are called, what they
// say, and how they hang together with those of clients and upstreams. They hold
// no arguments, results, credentials or task ids, and of a client's own words
// only names that an upstream lists. Names follow OpenTelemetry's conventions
// for MCP; what those do not know begins with "taskgate.".
package tracing

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"taskgate/policy"
	"taskgate/wire"
)

// Attributes of spans.
const (
	attrMethod   = attribute.Key("mcp.method.name")
	attrTool     = attribute.Key("gen_ai.tool.name")
	attrHTTP     = attribute.Key("http.response.status_code")
	attrCode     = attribute.Key("rpc.response.status_code")
	attrError    = attribute.Key("error.type")
	attrUpstream = attribute.Key("taskgate.upstream")
	attrOutcome  = attribute.Key("taskgate.outcome")
	attrRule     = attribute.Key("taskgate.policy.rule")
	attrSource   = attribute.Key("taskgate.policy.source")
	attrTask     = attribute.Key("taskgate.policy.task")
	attrPromote  = attribute.Key("taskgate.policy.promote_after")
	attrKind     = attribute.Key("taskgate.record.kind")
	attrStatus   = attribute.Key("taskgate.record.status")
)

const methodCall = "tools/call"

// Tracer makes spans. A nil Tracer makes none, and passes on nothing.
type Tracer struct {
	tracer trace.Tracer
	lists  func(upstream, tool string) bool
}

// New returns a Tracer that makes its spans with p. lists tells whether an
// upstream is known to list a tool.
func New(p trace.TracerProvider, lists func(upstream, tool string) bool) *Tracer {
	return &Tracer{tracer: p.Tracer("taskgate"), lists: lists}
}

// Request is a request as it came.
type Request struct {
	Began  time.Time
	Header http.Header
	Meta   wire.Raw // its params._meta
	Method string
}

// Request begins the span of a request. Its parent is the span that _meta names
// (SEP-414), which is the client's own; one that the header names is that of a
// hop on the way, and the parent only if there is no other.
func (t *Tracer) Request(ctx context.Context, r Request) (context.Context, trace.Span) {
	if t == nil {
		return ctx, trace.SpanFromContext(ctx)
	}
	method := wire.Label(r.Method)
	client, hop := fromMeta(r.Meta), extract(propagation.HeaderCarrier(r.Header))
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(r.Began),
		trace.WithAttributes(attrMethod.String(method)),
	}
	switch {
	case !client.IsValid():
		client = hop
	case hop.IsValid() && hop.SpanID() != client.SpanID():
		options = append(options, trace.WithLinks(trace.Link{SpanContext: hop}))
	}
	return t.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, client), method, options...)
}

func decision(d policy.Decision) []attribute.KeyValue {
	return []attribute.KeyValue{
		attrRule.String(d.Rule), attrSource.String(d.Source),
		attrTask.String(string(d.Task)), attrPromote.String(d.PromoteAfter.String()),
	}
}

// Decided notes on the span of a tools/call what policy has decided.
func (t *Tracer) Decided(ctx context.Context, upstream, tool string, d policy.Decision) {
	if t == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(decision(d)...)
	if t.lists(upstream, tool) {
		span.SetName(methodCall + " " + tool)
		span.SetAttributes(attrTool.String(tool))
	}
}

// start begins a span whose name ends with that of a tool that upstream lists.
func (t *Tracer) start(ctx context.Context, name, upstream, tool string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	options = append(options, trace.WithAttributes(attrUpstream.String(upstream)))
	if tool != "" && t.lists(upstream, tool) {
		name += " " + tool
		options = append(options, trace.WithAttributes(attrTool.String(tool)))
	}
	return t.tracer.Start(ctx, name, options...)
}

// Answered notes on the span of a request for which upstream it was and how it was
// answered: the HTTP status, the JSON-RPC code, 0 for a result, and what else
// there is to say, "" for nothing.
func Answered(span trace.Span, upstream string, status, code int, outcome string) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attrUpstream.String(upstream), attrHTTP.Int(status))
	if outcome != "" {
		span.SetAttributes(attrOutcome.String(outcome))
	}
	if code != 0 {
		failed(span, code)
	}
}

// failed notes the JSON-RPC code of an error, without its text: that may repeat
// what is not to be written down.
func failed(span trace.Span, code int) {
	text := strconv.Itoa(code)
	span.SetAttributes(attrCode.String(text), attrError.String(text))
	span.SetStatus(codes.Error, "")
}
