package taskrun

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"taskgate/taskroute"
	"taskgate/tracing"
	"taskgate/wire"
)

// beginSpan begins the span of the time in which this replica holds the record
// of the call.
func (r *Runner) beginSpan(ctx context.Context, c *Call) (context.Context, trace.Span) {
	return r.opts.Tracing.Run(ctx, tracing.Run{Upstream: c.Upstream, Tool: c.Tool, Decision: c.Decision, Origin: c.Origin})
}

// spanOfEnd tells of a record that has ended here without having been run here:
// its holder is dead, or its time to be answered is over.
func (r *Runner) spanOfEnd(call *Call, rec *taskroute.Record) {
	if !rec.State.Status.Terminal() {
		return
	}
	_, span := r.beginSpan(context.Background(), call)
	defer span.End()
	span.AddEvent(tracing.NotRun)
	endedSpan(span, rec)
}

func noSpan() trace.Span { return trace.SpanFromContext(context.Background()) }

// endedSpan notes how a record has ended.
func endedSpan(span trace.Span, rec *taskroute.Record) {
	code := 0
	if rec.Outcome.Error != nil {
		code = wire.ParseError(rec.Outcome.Error).Code
	}
	tracing.Ended(span, string(rec.State.Kind), string(rec.State.Status), code)
}
