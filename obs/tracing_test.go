package obs

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
)

// receiver answers exports with the statuses, the last of them again and again,
// and keeps the names of the spans that it has taken.
func receiver(t *testing.T, statuses ...int) (url string, taken func() []string) {
	var names []string // of one request after the other: there is one batch at a time
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		status := statuses[0]
		statuses = statuses[min(1, len(statuses)-1):]
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Error(err)
		}
		if status == http.StatusOK {
			for _, span := range data.ResourceSpans[0].ScopeSpans[0].Spans {
				names = append(names, span.Name)
			}
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string { s.Close(); return names }
}

func export(t *testing.T, url string, names ...string) (*prometheus.Registry, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	reg := prometheus.NewRegistry()
	p, err := Tracing(TracingOptions{Endpoint: url, SampleRatio: 1, Service: "s", Log: zap.New(core), Metrics: reg})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		_, span := p.Tracer("test").Start(t.Context(), name)
		span.End()
		if err := p.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return reg, logs
}

func lost(t *testing.T, reg *prometheus.Registry) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d metrics, %v", len(families), err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

func TestSpansAreSentAgainWhileTheReceiverIsBusy(t *testing.T) {
	url, taken := receiver(t, http.StatusServiceUnavailable, http.StatusOK)
	reg, logs := export(t, url, "a")
	if got := taken(); len(got) != 1 || lost(t, reg) != 0 || logs.Len() != 0 {
		t.Errorf("taken %q, %v lost, %d lines logged", got, lost(t, reg), logs.Len())
	}
}

func TestRefusedSpansAreCountedAndLoggedOnce(t *testing.T) {
	url, taken := receiver(t, http.StatusBadRequest, http.StatusNotFound, http.StatusOK)
	reg, logs := export(t, url, "a", "b", "c")
	if got := taken(); len(got) != 1 || got[0] != "c" || lost(t, reg) != 2 {
		t.Errorf("taken %q, %v lost", got, lost(t, reg))
	}
	if logs.Len() != 2 || logs.All()[0].Level != zapcore.WarnLevel || logs.All()[1].Message != "spans are taken again" {
		t.Errorf("logged %v", logs.All())
	}
}

// TestShutdownDoesNotWaitForAReceiver that is away for longer than it is given.
func TestShutdownDoesNotWaitForAReceiver(t *testing.T) {
	url, taken := receiver(t, http.StatusServiceUnavailable)
	reg := prometheus.NewRegistry()
	p, err := Tracing(TracingOptions{Endpoint: url, SampleRatio: 1, Log: zap.NewNop(), Metrics: reg})
	if err != nil {
		t.Fatal(err)
	}
	_, span := p.Tracer("test").Start(t.Context(), "a")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_ = p.Shutdown(ctx) // it says that the time is over
	if ctx.Err() == nil || len(taken()) != 0 {
		t.Error("the shutdown ended before its time, or a span was taken")
	}
}

// TestWhichTracesAreKept: what a client has decided holds, a linked trace is kept
// with what it leads to, and else the ratio says.
func TestWhichTracesAreKept(t *testing.T) {
	p, err := Tracing(TracingOptions{Endpoint: "http://127.0.0.1:1", SampleRatio: 0, Log: zap.NewNop(), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	other := func(flags trace.TraceFlags) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true})
	}
	link := func(flags trace.TraceFlags) trace.SpanStartOption {
		return trace.WithLinks(trace.Link{SpanContext: other(flags)})
	}
	for _, c := range []struct {
		what   string
		parent trace.SpanContext
		link   trace.SpanStartOption
		want   bool
	}{
		{what: "begins here"},
		{what: "child of one that is kept", parent: other(trace.FlagsSampled), want: true},
		{what: "child of one that is not", parent: other(0), link: link(trace.FlagsSampled)},
		{what: "leads to one that is kept", link: link(trace.FlagsSampled), want: true},
		{what: "leads to one that is not", link: link(0)},
	} {
		var options []trace.SpanStartOption
		if c.link != nil {
			options = append(options, c.link)
		}
		_, span := p.Tracer("test").Start(trace.ContextWithRemoteSpanContext(t.Context(), c.parent), "x", options...)
		if span.SpanContext().IsSampled() != c.want {
			t.Errorf("%s: kept is %v", c.what, !c.want)
		}
	}
}
