package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"taskgate/wire"
)

func TestFailures(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, received) {
		return func(w http.ResponseWriter, _ received) { w.WriteHeader(code) }
	}
	tests := []struct {
		name       string
		answer     func(http.ResponseWriter, received)
		kind       ErrorKind
		mayHaveRun bool
		status     int
	}{
		{"301", status(301), Refused, false, 301},
		{"303", status(303), Refused, true, 303},
		{"400", status(400), Refused, false, 400},
		{"401", status(401), Unauthorized, false, 401},
		{"401 with a JSON-RPC error", func(w http.ResponseWriter, r received) {
			replyJSON(w, 401, r.ID, `"error":{"code":-32000,"message":"m"}`)
		}, Unauthorized, false, 401},
		{"403", status(403), Unauthorized, false, 403},
		{"405", status(405), Refused, false, 405},
		{"408", status(408), Refused, true, 408},
		{"409", status(409), Refused, true, 409},
		{"429", status(429), Refused, false, 429},
		{"500", status(500), Refused, true, 500},
		{"500 with a JSON-RPC error for nobody", func(w http.ResponseWriter, r received) {
			replyJSON(w, 500, nil, `"error":{"code":-32603,"message":"Internal server error"}`)
		}, Refused, true, 500},
		{"502", status(502), Refused, true, 502},
		{"200 empty", status(200), Broken, true, 200},
		{"202", status(202), Broken, true, 202},
		{"a page", raw("text/html", "<html>ID</html>"), Broken, true, 200},
		{"truncated JSON", raw("application/json", `{"jsonrpc":"2.0","id":ID,"result":{`), Broken, true, 200},
		{"JSON of another id", raw("application/json", `{"jsonrpc":"2.0","id":99,"result":{}}`), Broken, true, 200},
		{"two results", raw("application/json", `{"jsonrpc":"2.0","id":ID,"result":{},"result":{}}`), Broken, true, 200},
		{"truncated gzip", raw("application/json", zipped(strings.Repeat("x", 100))[:20]), Broken, true, 200},
		{"no response in the stream", raw("text/event-stream", ": hi\n\n"), Broken, true, 200},
		{"polled stream", raw("text/event-stream", "event: close\nretry: 10\ndata: \n\n"), Broken, true, 200},
		{"unreadable response", raw("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":ID}\n\n"), Broken, true, 200},
		{"stream that breaks off", func(w http.ResponseWriter, _ received) {
			stream(w, "data: {\"jsonrpc\":\"2.0\",")
			panic(http.ErrAbortHandler)
		}, Broken, true, 200},
		{"connection that breaks off", func(http.ResponseWriter, received) { panic(http.ErrAbortHandler) }, Broken, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, era := range []Era{Legacy, Modern} {
				s := serve(t, answering(tt.answer))
				h := connect(t, Options{URL: s.URL, Era: era})
				_, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("%s: error %v", era, err)
				}
				check(t, "kind", e.Kind, tt.kind)
				check(t, "may have run", e.MayHaveRun, tt.mayHaveRun)
				check(t, "outcome unknown", errors.Is(err, ErrOutcomeUnknown), tt.mayHaveRun)
				check(t, "status", e.Status, tt.status)
			}
		})
	}
}

func TestServerErrorForOurIDIsAReply(t *testing.T) {
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		replyJSON(w, 500, r.ID, `"error":{"code":-32603,"message":"m"}`)
	}))
	h := connectModern(t, s)
	reply, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
	if err != nil {
		t.Fatal(err)
	}
	check(t, "error", string(reply.Error), `{"code":-32603,"message":"m"}`)
}

func TestRefusalQuotesALittleOfTheBody(t *testing.T) {
	s := serve(t, answering(func(w http.ResponseWriter, _ received) {
		http.Error(w, "a\x00"+strings.Repeat("b", 1000), http.StatusServiceUnavailable)
	}))
	h := connectModern(t, s)
	_, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
	text := fmt.Sprint(err)
	if !strings.Contains(text, `503 Service Unavailable: "a\x00bbb`) || len(text) > 400 {
		t.Errorf("error: %s", text)
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, era := range []Era{Auto, Legacy, Modern} {
		h := connect(t, Options{URL: "http://user:secret@" + l.Addr().String() + "/?key=secret", Era: era})
		_, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
		var e *Error
		if !errors.As(err, &e) || e.Kind != Unreachable || e.MayHaveRun || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", era, err)
		}
	}
}

func TestAnswersOverTheLimit(t *testing.T) {
	const limit = 1000
	long := strings.Repeat("x", 5*limit)
	tests := map[string]struct {
		answer func(http.ResponseWriter, received)
		size   int64
	}{
		"JSON, announced": {func(w http.ResponseWriter, r received) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "5000")
			io.WriteString(w, long)
		}, 5000},
		"JSON, not announced": {func(w http.ResponseWriter, r received) {
			w.Header().Set("Content-Type", "application/json")
			replyInPieces(w, long)
		}, limit + 1},
		"gzip bomb": {func(w http.ResponseWriter, r received) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, zipped(strings.Repeat(" ", 1<<19)))
		}, limit + 1},
		"one event": {func(w http.ResponseWriter, r received) {
			stream(w, "data: ")
			replyInPieces(w, long)
			waitForCancel(r)
		}, limit},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, answering(tt.answer))
			h := connectLegacy(t, s, Options{MaxResponse: limit, MaxEvent: limit})
			_, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
			var e *Error
			if !errors.As(err, &e) || e.Kind != TooLarge || !e.MayHaveRun {
				t.Fatalf("error: %v", err)
			}
			check(t, "limit", e.Limit, limit)
			check(t, "size", e.Size, tt.size)
			check(t, "cancelled", len(s.all(method("notifications/cancelled"))), 1)
		})
	}
}

func replyInPieces(w http.ResponseWriter, text string) {
	for len(text) > 0 {
		n := min(len(text), 512)
		io.WriteString(w, text[:n])
		w.(http.Flusher).Flush()
		text = text[n:]
	}
}

func TestManySmallEventsAreNoLargeOne(t *testing.T) {
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		for range 1000 {
			stream(w, event(`{'jsonrpc':'2.0','method':'notifications/message','params':{}}`))
		}
		stream(w, event(`{'jsonrpc':'2.0','id':%s,'result':{}}`, r.ID))
	}))
	h := connectLegacy(t, s, Options{MaxResponse: 1000, MaxEvent: 1000})
	rec := &recorder{}
	if _, err := h.Call(t.Context(), toolCall(5, "x", `{}`), rec); err != nil {
		t.Fatal(err)
	}
	_, notes, _ := rec.seen()
	check(t, "notes", len(notes), 1000)
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var visits atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	defer elsewhere.Close()
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		w.Header().Set("Location", elsewhere.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	h := connectLegacy(t, s, Options{})
	_, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
	check(t, "refused", isKind(err, Refused), true)
	check(t, "visits", visits.Load(), 0)
}

// TestPostIsNotRepeated: http.Transport sends a request again on a connection
// that breaks when it believes that it may.
func TestPostIsNotRepeated(t *testing.T) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "x-idempotency-KEY"} {
		var calls atomic.Int32
		var key atomic.Value
		s := serve(t, func(w http.ResponseWriter, r received) bool {
			if r.Method != "tools/call" {
				return false
			}
			key.Store(r.header.Get(name))
			if calls.Add(1) == 1 { // so that the connection is one that was used before
				fast(w, r)
				return true
			}
			panic(http.ErrAbortHandler)
		})
		h := connectModern(t, s)
		r := toolCall(5, "x", `{}`)
		r.Header = http.Header{name: {"k-1"}}
		if _, err := h.Call(t.Context(), r, &recorder{}); err != nil {
			t.Fatal(err)
		}
		h.running.Wait()
		if _, err := h.Call(t.Context(), r, &recorder{}); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s: %v", name, err)
		}
		check(t, name+" calls", calls.Load(), 2)
		check(t, name, key.Load(), any("k-1"))
	}
}

func TestForbiddenAddresses(t *testing.T) {
	for address, allowed := range map[string]bool{
		"127.0.0.1:80": true, "10.1.2.3:443": true, "[::1]:80": true, "93.184.216.34:80": true, "[fd00::1]:80": true,
		"169.254.169.254:80": false, "[fe80::1%eth0]:80": false, "[::ffff:169.254.169.254]:80": false,
		"[fd00:ec2::254]:80": false, "100.100.100.200:80": false, "224.0.0.1:80": false, "nonsense": false,
	} {
		err := Options{}.checkAddress(context.Background(), "tcp", address, nil)
		check(t, address, err == nil, allowed)
		err = Options{AllowLinkLocal: true}.checkAddress(context.Background(), "tcp", address, nil)
		check(t, address+", if that is allowed", err, nil)
	}
}

func TestDialRefusesTheMetadataService(t *testing.T) {
	h := connect(t, Options{URL: "http://169.254.169.254/mcp", Era: Modern})
	_, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
	var e *Error
	if !errors.As(err, &e) || e.Kind != Unreachable || e.MayHaveRun || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("error: %v", err)
	}
}

func TestTLS(t *testing.T) {
	s := &scripted{respond: answering(fast)}
	s.Server = httptest.NewTLSServer(s)
	defer s.Close()
	trusting := connect(t, Options{URL: s.URL, Era: Modern, TLS: func() *tls.Config { return s.Client().Transport.(*http.Transport).TLSClientConfig }})
	if _, err := trusting.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{}); err != nil {
		t.Error(err)
	}
	s.Config.ErrorLog = nil
	strict := connect(t, Options{URL: s.URL, Era: Modern})
	_, err := strict.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
	var e *Error
	if !errors.As(err, &e) || e.Kind != Unreachable || e.MayHaveRun {
		t.Errorf("unknown certificate: %v", err)
	}
}

func TestConnectionThatNeverAnswersInitialize(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, in the kernel, and is silent
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, era := range []Era{Auto, Legacy} {
		h := connect(t, Options{URL: "http://" + l.Addr().String(), Era: era, InitializeTimeout: 1e8})
		_, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
		var e *Error
		if !errors.As(err, &e) || e.Kind != TimedOut || e.MayHaveRun {
			t.Errorf("%s: %v", era, err)
		}
	}
}

func TestInvalidHeaderValueNeverGoesOut(t *testing.T) {
	s := serve(t, answering(fast))
	h := connectModern(t, s)
	r := toolCall(5, "x", `{}`)
	r.Method = "a\r\nX-Evil: 1"
	_, err := h.Call(t.Context(), r, &recorder{})
	var e *Error
	if !errors.As(err, &e) || e.MayHaveRun {
		t.Errorf("error: %v", err)
	}
	check(t, "messages", len(s.methods()), 0)
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{URL: ""}, {URL: "localhost:80"}, {URL: "ftp://h/"}, {URL: "http://"}, {URL: "http://u:secret@h:p/"}, {URL: "http://h/", Era: "old"},
	} {
		_, err := NewHTTP(o)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := serve(t, answering(fast))
	h, err := NewHTTP(Options{Name: "a", URL: s.URL, Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewHTTP(Options{Name: "a", URL: s.URL, Metrics: registry}); err == nil {
		t.Error("a second upstream of one name was taken")
	}
	connect(t, Options{URL: s.URL, Metrics: registry}) // another name is fine
	if _, err := h.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{}); err != nil {
		t.Fatal(err)
	}
	bad := toolCall(2, "x", `{}`)
	bad.Params = bad.Params.With("_meta", wire.Raw(`1`))
	if _, err := h.Call(t.Context(), bad, &recorder{}); err == nil {
		t.Fatal("no error")
	}
	check(t, "failures", testutil.ToFloat64(h.metrics.failures.WithLabelValues("refused")), 1)
	check(t, "probes", testutil.ToFloat64(h.metrics.probes.WithLabelValues("legacy")), 1)
	check(t, "opened", testutil.ToFloat64(h.metrics.opened), 1)
	check(t, "sessions", testutil.ToFloat64(h.metrics.sessions), 1)
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, "sessions", testutil.ToFloat64(h.metrics.sessions), 0)
	if _, err := NewHTTP(Options{Name: "a", URL: s.URL, Metrics: registry}); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

func TestInfoOfAnUpstreamInTrouble(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter, received)
		kind   ErrorKind
	}{
		"401": {func(w http.ResponseWriter, _ received) { w.WriteHeader(401) }, Unauthorized},
		"500": {func(w http.ResponseWriter, _ received) { w.WriteHeader(500) }, Refused},
		"JSON-RPC error": {func(w http.ResponseWriter, r received) {
			replyJSON(w, 200, r.ID, `"error":{"code":-32603,"message":"m"}`)
		}, Incompatible},
		"no object": {func(w http.ResponseWriter, r received) { replyJSON(w, 200, r.ID, `"result":[]`) }, Incompatible},
	} {
		for _, era := range []Era{Modern, Legacy} {
			s := serve(t, func(w http.ResponseWriter, r received) bool { tt.answer(w, r); return true })
			h := connect(t, Options{URL: s.URL, Era: era})
			_, err := h.Info(t.Context())
			if !isKind(err, tt.kind) || errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("%s, %s: %v", name, era, err)
			}
		}
	}
}

func TestLogsDoNotRepeatWhatTheUpstreamSays(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		if r.http == http.MethodDelete || r.IsResponse() {
			http.Error(w, "you said s3cret", http.StatusInternalServerError)
			return true
		}
		return answering(func(w http.ResponseWriter, r received) {
			stream(w, event(`{'jsonrpc':'2.0','id':9,'method':'roots/list'}`))
			waitForCancel(r)
		})(w, r)
	})
	h := connectLegacy(t, s, Options{Log: zap.New(core)})
	if _, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{}); !isKind(err, Broken) {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, "entries", logs.Len(), 2)
	for _, entry := range logs.All() {
		if said := fmt.Sprint(entry.ContextMap()["error"]); !strings.Contains(said, "HTTP status 500") {
			t.Errorf("%s: %s", entry.Message, said)
		}
		if strings.Contains(fmt.Sprint(entry.ContextMap()), "s3cret") {
			t.Errorf("%s: %v", entry.Message, entry.ContextMap())
		}
	}
}
