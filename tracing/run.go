package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"taskgate/policy"
)

// Run is a call that has a record, at the replica that holds it.
type Run struct {
	Upstream string
	Tool     string
	Decision policy.Decision
	// Origin is what Origin returned for the request that made the record.
	Origin string
}

// Events of the span of a Run.
const (
	Asked      = "asked"       // its client is asked a question
	Parked     = "parked"      // nobody holds it until its client has answered
	Continued  = "continued"   // its client has answered, and it is sent with that
	Reattached = "reattached"  // it goes on where its last holder has left it
	NotFound   = "not_found"   // it was not there
	Rerun      = "rerun"       // it is sent again
	NotRun     = "not_run"     // it ends where nobody runs it: its holder is dead, or its client has not answered
	HandedOver = "handed_over" // another replica is to find it
	Lost       = "lost"        // another replica has it, or has ended it
	Expired    = "expired"     // its time is over
)

// Run begins the span of the time in which this replica holds the record. It
// begins a trace of its own, since it may take hours and may not be the only
// one, and links to the request that made the record.
func (t *Tracer) Run(ctx context.Context, r Run) (context.Context, trace.Span) {
	if t == nil {
		return ctx, trace.SpanFromContext(context.Background())
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithAttributes(decision(r.Decision)...)}
	if origin := extract(propagation.MapCarrier{traceparent: r.Origin}); origin.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: origin}))
	}
	return t.start(ctx, "run", r.Upstream, r.Tool, options...)
}

// Ended notes of what kind a record was and with which status it has ended; code
// is that of its error, 0 when it has none.
func Ended(span trace.Span, kind, status string, code int) {
	span.SetAttributes(attrKind.String(kind), attrStatus.String(status))
	if code != 0 {
		failed(span, code)
	}
}

// Origin names the span of ctx, for a Run that may be at another replica; "" when
// there is none.
func Origin(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get(traceparent)
}
