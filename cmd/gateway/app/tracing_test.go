package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// receiver takes spans as an OpenTelemetry collector does.
type receiver struct {
	url string

	mu      sync.Mutex
	spans   []*tracepb.Span
	service string
	all     strings.Builder // everything that came, as text
}

// newReceiver wants the header that tracing.headers says.
func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var export tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("X-Token") != "t0ken" || req.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("export to %s with %v: %v", req.URL.Path, req.Header, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.take(&export)
	}))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

func (r *receiver) take(export *tracepb.TracesData) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.WriteString(protojson.Format(export))
	for _, resource := range export.ResourceSpans {
		r.service = attribute(resource.Resource.Attributes, "service.name")
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

// span is the one of that name and kind, or the last of several.
func (r *receiver) span(t *testing.T, name string, kind tracepb.Span_SpanKind) *tracepb.Span {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for i := len(r.spans) - 1; i >= 0; i-- {
		if s := r.spans[i]; s.Name == name && s.Kind == kind {
			return s
		}
		names = append(names, r.spans[i].Name)
	}
	t.Fatalf("no span %q of %v among %q", name, kind, names)
	return nil
}

func attribute(list []*commonpb.KeyValue, key string) string {
	for _, a := range list {
		if a.Key != key {
			continue
		}
		if n, ok := a.Value.Value.(*commonpb.AnyValue_IntValue); ok {
			return fmt.Sprint(n.IntValue)
		}
		return a.Value.GetStringValue()
	}
	return ""
}

func wantAttributes(t *testing.T, s *tracepb.Span, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got := attribute(s.Attributes, key); got != value {
			t.Errorf("span %q: %s is %q, want %q", s.Name, key, got, value)
		}
	}
}

func events(s *tracepb.Span) string {
	var names []string
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

// parentOf is the traceparent that names the span.
func parentOf(s *tracepb.Span) string { return fmt.Sprintf("00-%x-%x-01", s.TraceId, s.SpanId) }

const (
	server   = tracepb.Span_SPAN_KIND_SERVER
	upstream = tracepb.Span_SPAN_KIND_CLIENT
	internal = tracepb.Span_SPAN_KIND_INTERNAL

	clientSpan = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	hopSpan    = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01"
)

// traced is a gateway whose spans go to the receiver.
func traced(t *testing.T, u *mcptest.Upstream, r *receiver) *gateway {
	return start(t, `
tracing: {endpoint: "`+r.url+`/", serviceName: gate, headers: {X-Token: env:TOKEN}}
upstreams: [{name: u, url: "`+u.Start(t)+`"}]
`, "rules:\n  - {name: jobs, match: {tool: ask}, promoteAfter: 0s}\n  - {name: rest, match: {tool: \"*\"}, promoteAfter: 1m}\n", "TOKEN=t0ken")
}

// TestSpansTellWhy: the request's span has the client's as parent and says which
// rule decided; the upstream is told of the gateway's own span, in both places.
func TestSpansTellWhy(t *testing.T) {
	for era, u := range map[string]*mcptest.Upstream{"legacy": mcptest.NewLegacy(askingTools()...), "modern": mcptest.NewModern(askingTools()...)} {
		t.Run(era, func(t *testing.T) {
			r := newReceiver(t)
			g := traced(t, u, r)
			c := g.client(t, "/mcp", mcptest.TasksAndInput, "Traceparent", hopSpan)
			must(t)(c.CallTool(t.Context(), "echo", `{"text":"arg0ment"}`, mcptest.WithMeta("traceparent", wire.Quote(clientSpan)), mcptest.WithMeta("tracestate", wire.Raw(`"a=b"`)), mcptest.WithMeta("baggage", wire.Raw(`"k=v"`))))
			g.Stop(t)

			request, call := r.span(t, "tools/call echo", server), r.span(t, "tools/call echo", upstream)
			wantAttributes(t, request, map[string]string{
				"mcp.method.name": "tools/call", "gen_ai.tool.name": "echo", "taskgate.upstream": "u", "http.response.status_code": "200",
				"taskgate.policy.rule": "rest", "taskgate.policy.source": g.Dir + "/policy.yaml:3", "taskgate.policy.task": "optional", "taskgate.policy.promote_after": "1m0s",
			})
			if got := fmt.Sprintf("00-%x-%x-01", request.TraceId, request.ParentSpanId); got != clientSpan {
				t.Errorf("the request's parent is %s", got)
			}
			if len(request.Links) != 1 || !strings.Contains(hopSpan, fmt.Sprintf("%x", request.Links[0].SpanId)) {
				t.Errorf("links to the hop before: %v", request.Links)
			}
			if string(call.ParentSpanId) != string(request.SpanId) {
				t.Error("the call to the upstream is no child of the request")
			}
			ran := u.Calls("echo", "")[0]
			meta, _ := ran.Params.Object("_meta")
			for place, got := range map[string]string{
				"_meta": string(meta.Get("traceparent")), "header": `"` + ran.Header.Get("Traceparent") + `"`,
				"tracestate": strings.ReplaceAll(string(meta.Get("tracestate"))+ran.Header.Get("Tracestate"), `"`, ""), "baggage": string(meta.Get("baggage")),
			} {
				want := map[string]string{"tracestate": "a=ba=b", "baggage": `"k=v"`}[place]
				if want == "" {
					want = `"` + parentOf(call) + `"`
				}
				if got != want {
					t.Errorf("%s: the upstream got %s, want %s", place, got, want)
				}
			}
			if r.service != "gate" {
				t.Errorf("service %q", r.service)
			}
			if strings.Contains(r.all.String(), "arg0ment") {
				t.Error("a span holds an argument")
			}
		})
	}
}

// TestSpansOfTasks: what becomes of a task is told in a trace of its own, which
// leads back to the request that made it, and holds nothing secret.
func TestSpansOfTasks(t *testing.T) {
	for era, u := range map[string]*mcptest.Upstream{"legacy": mcptest.NewLegacy(askingTools()...), "modern": mcptest.NewModern(askingTools()...)} {
		t.Run(era, func(t *testing.T) {
			r := newReceiver(t)
			g := traced(t, u, r)
			c := g.client(t, "/mcp", mcptest.TasksAndInput)
			id := task(t, c, "ask", `{"text":"arg0ment"}`)
			requests, _ := wait(t, c, id, wire.StatusInputRequired).Object("inputRequests")
			must(t)(c.Update(t.Context(), id, wire.Object{}.With(requests[0].Name, mcptest.Accept(`{"name":"answ3r"}`))))
			wait(t, c, id, wire.StatusCompleted)
			must(t)(c.CallTool(t.Context(), "made-up", `{"text":"arg0ment"}`))
			must(t)(c.Call(t.Context(), "made/up", nil))
			g.Stop(t)

			request, run := r.span(t, "tools/call ask", server), r.span(t, "run ask", internal)
			wantAttributes(t, request, map[string]string{"taskgate.outcome": "task", "taskgate.policy.rule": "jobs"})
			wantAttributes(t, run, map[string]string{
				"taskgate.policy.rule": "jobs", "taskgate.policy.source": g.Dir + "/policy.yaml:2",
				"taskgate.record.status": wire.StatusCompleted, "taskgate.record.kind": "task",
			})
			if string(run.TraceId) == string(request.TraceId) || len(run.Links) != 1 || string(run.Links[0].SpanId) != string(request.SpanId) {
				t.Errorf("the run does not lead back to its request: %v", run.Links)
			}
			if want := map[string]string{"legacy": "asked", "modern": "continued"}[era]; events(run) != want {
				t.Errorf("events %q, want %q", events(run), want)
			}
			r.span(t, "tasks/get", server)
			r.span(t, "other", server)
			wantAttributes(t, r.span(t, "tools/call", server), map[string]string{"gen_ai.tool.name": "", "error.type": "-32602"})
			for _, secret := range []string{id, "arg0ment", "answ3r", "made-up", "made/up", "t0ken"} {
				if strings.Contains(r.all.String(), secret) {
					t.Errorf("spans hold %q", secret)
				}
			}
		})
	}
}

// TestTheLogTellsWhy: at level debug each decision leaves a line with its rule, and
// where that is written.
func TestTheLogTellsWhy(t *testing.T) {
	u := mcptest.NewModern(askingTools()...)
	g := start(t, "upstreams: [{name: u, url: \""+u.Start(t)+"\"}]\n", "rules:\n  - {name: jobs, match: {tool: ask}}\n  - {name: rest, match: {tool: \"*\"}, promoteAfter: 1m}\n")
	must(t)(g.client(t, "/mcp", mcptest.TasksAndInput).CallTool(t.Context(), "echo", `{"text":"arg0ment"}`))
	for line := range strings.Lines(g.log.String()) {
		var entry struct{ Level, Msg, Upstream, Tool, Rule, Source, Task string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Msg != "decided" {
			continue
		}
		if entry.Level != "debug" || entry.Upstream != "u" || entry.Tool != "echo" || entry.Rule != "rest" || entry.Source != g.Dir+"/policy.yaml:3" || entry.Task != "optional" {
			t.Errorf("logged %s", line)
		}
		return
	}
	t.Error("no line tells of the decision")
}

// TestUntracedPassesAsItIs: without tracing the client's trace context is its own
// affair, and nothing is added.
func TestUntracedPassesAsItIs(t *testing.T) {
	u := mcptest.NewModern(askingTools()...)
	g := start(t, "upstreams: [{name: u, url: \""+u.Start(t)+"\"}]\n", "rules: []\n")
	c := g.client(t, "/mcp", mcptest.TasksAndInput, "Traceparent", hopSpan)
	must(t)(c.CallTool(t.Context(), "echo", `{}`, mcptest.WithMeta("traceparent", wire.Quote(clientSpan))))
	ran := u.Calls("echo", "")[0]
	meta, _ := ran.Params.Object("_meta")
	if got := string(meta.Get("traceparent")); got != `"`+clientSpan+`"` || ran.Header.Get("Traceparent") != "" {
		t.Errorf("the upstream got %s and %v", got, ran.Header)
	}
}
