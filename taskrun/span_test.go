package taskrun

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"taskgate/internal/bubble"
	"taskgate/taskroute"
	"taskgate/tracing"
)

// spans keeps the spans of runs. No upstream lists a tool.
func spans() (*tracetest.InMemoryExporter, func(*Options)) {
	kept := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))
	return kept, func(o *Options) {
		o.Tracing = tracing.New(p, func(string, string) bool { return false })
	}
}

const origin = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func from(c *Call) { c.Origin = origin }

// wantSpan holds the last span against the event it is to have and the status
// that the record is to have ended with. It leads back to the request that made
// the record, at whatever replica that was.
func wantSpan(t *testing.T, kept *tracetest.InMemoryExporter, event string, status taskroute.Status) {
	t.Helper()
	all := kept.GetSpans()
	if len(all) == 0 {
		t.Fatal("no span")
	}
	s := all[len(all)-1]
	if len(s.Events) == 0 || s.Events[0].Name != event {
		t.Errorf("events %v, want %s first", s.Events, event)
	}
	if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("links %v", s.Links)
	}
	attributes := attribute.NewSet(s.Attributes...)
	if v, _ := attributes.Value("taskgate.record.status"); v.AsString() != string(status) {
		t.Errorf("ended as %q, want %q", v.AsString(), status)
	}
}

func TestRescuesAreTraced(t *testing.T) {
	t.Run("sent again", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			kept, traced := spans()
			cut := newFaulty(w.store.Backend)
			r, other := w.replicaOn(cut, traced), w.replica(traced)
			id := r.call(from, reruns(2)).handle()
			cut.set(down)
			bubble.Advance(2 * rescued)
			w.nth(2).returns(hello)
			other.becomes(id, taskroute.Completed, time.Second)
			wantSpan(t, kept, tracing.Rerun, taskroute.Completed)
		})
	})
	t.Run("found again", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			kept, traced := spans()
			cut := newFaulty(w.store.Backend)
			r, other := w.replicaOn(cut, traced), w.replica(traced)
			waiting := r.call(from)
			w.nth(1).keeps(`{"at":1}`)
			id := waiting.handle()
			cut.set(down)
			bubble.Advance(2 * rescued)
			w.nth(2).returns(hello)
			other.becomes(id, taskroute.Completed, time.Second)
			wantSpan(t, kept, tracing.Reattached, taskroute.Completed)
		})
	})
	t.Run("given up", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			kept, traced := spans()
			r, other := w.replica(traced), w.replica(traced)
			id := r.call(from).handle()
			r.stop()
			other.becomes(id, taskroute.Failed, rescued)
			wantSpan(t, kept, tracing.NotRun, taskroute.Failed)
		})
	})
}
