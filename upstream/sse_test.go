package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// goSSE is a server of the Go SDK over HTTP+SSE.
func goSSE(t *testing.T) *httptest.Server {
	t.Helper()
	release := make(chan struct{}) // a call whose stream broke is not cancelled
	server := mcptest.Server(release)
	s := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		close(release)
		s.CloseClientConnections() // their streams do not end by themselves
		s.Close()
	})
	return s
}

func TestSSE(t *testing.T) {
	for _, era := range []Era{SSE, Auto, Legacy} {
		t.Run("go-sdk, "+string(era), func(t *testing.T) {
			h := connect(t, Options{URL: goSSE(t).URL, Era: era})
			info, err := h.Info(t.Context())
			if err != nil || info.Modern || info.Deaf || !strings.Contains(string(info.ServerInfo), "on-stdio") {
				t.Fatalf("info %s %v, %v", info.ServerInfo, info.Deaf, err)
			}
			check(t, "era", h.detector.get(), SSE)
			check(t, "ask", say(t, h, toolCall(1, "ask", `{"text":"a"}`)), "a accept Ann")
			big := strings.Repeat("x", 3<<20)
			check(t, "big", say(t, h, toolCall(2, "echo", `{"text":"`+big+`"}`)) == big, true)
		})
	}
	t.Run("server-everything", func(t *testing.T) {
		h := connect(t, Options{URL: mcptest.Everything(t, "sse").URL})
		rec := &recorder{ask: func(context.Context, string, wire.Raw) (wire.Raw, *wire.Error) {
			return wire.Raw(`{"action":"accept","content":{"name":"Ann","check":true}}`), nil
		}}
		for id, tool := range []string{`trigger-long-running-operation {"duration":0.4,"steps":2}`, `trigger-elicitation-request {}`} {
			name, arguments, _ := strings.Cut(tool, " ")
			reply, err := h.Call(t.Context(), toolCall(uint64(id+1), name, arguments), rec)
			if err != nil || strings.Contains(string(reply.Result), "isError") {
				t.Errorf("%s: %s %s, %v", tool, reply.Result, reply.Error, err)
			}
		}
		progress, _, asked := rec.seen()
		check(t, "progress", len(progress), 2)
		check(t, "asked", slices.Contains(asked, wire.MethodElicit), true) // and for roots, on its own account
		check(t, "era", h.detector.get(), SSE)
	})
}

// Calls of all kinds share the stream, and each gets its own.
func TestManyCallsOnOneStream(t *testing.T) {
	h := connect(t, Options{URL: goSSE(t).URL, Era: SSE, Isolation: Shared})
	var wg sync.WaitGroup
	for id := uint64(1); id <= 20; id++ {
		wg.Go(func() {
			if id%4 == 0 {
				check(t, "ask", say(t, h, toolCall(id, "ask", fmt.Sprintf(`{"text":"c%d"}`, id))), fmt.Sprintf("c%d accept Ann", id))
				return
			}
			check(t, "echo", say(t, h, by("a", id, "echo", fmt.Sprintf(`{"text":"c%d"}`, id))), fmt.Sprintf("c%d", id))
		})
	}
	wg.Wait()
}

func TestAStreamThatBreaks(t *testing.T) {
	s := goSSE(t)
	h := connect(t, Options{URL: s.URL, Era: SSE})
	waiting := underWay(t, h, by("a", 1, "wait", `{}`))
	s.CloseClientConnections()
	_, err := waiting.wait()
	check(t, "outcome unknown", isKind(err, Broken) && errors.Is(err, ErrOutcomeUnknown), true)
	check(t, "a new stream", say(t, h, by("a", 2, "echo", `{"text":"x"}`)), "x")
	call := underWay(t, h, by("a", 3, "wait", `{}`))
	call.cancels()
	check(t, "a cancel leaves the stream alone", h.sessions.size(), 1)
}

func TestListenOverSSE(t *testing.T) {
	h := connect(t, Options{URL: goSSE(t).URL, Era: SSE})
	s, err := h.Listen(t.Context(), ListenRequest{Want: wire.Filter{Tools: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check(t, "grow", say(t, h, by("a", 1, "grow", `{"text":"more"}`)), "grown")
	eventually(t, "it is heard", func() bool { return len(s.Take()) == 1 })
}

// What is POSTed may hold credentials.
func TestTheEndpointIsOfTheSameOrigin(t *testing.T) {
	for name, first := range map[string]string{
		"another origin": "event: endpoint\ndata: http://127.0.0.2:1/message\n\n",
		"no address":     "event: endpoint\ndata: http://%zz\n\n",
		"no endpoint":    "data: {}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { stream(w, first) }))
			defer s.Close()
			h := connect(t, Options{URL: s.URL, Era: SSE})
			_, err := h.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{})
			var e *Error
			if !errors.As(err, &e) || e.Kind != Incompatible || e.MayHaveRun || strings.Contains(err.Error(), "127.0.0.2") {
				t.Errorf("error: %v", err)
			}
		})
	}
}

// A server that answers neither POST nor GET, or opens a silent stream, is none.
func TestNoServerOfAnyKind(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		stream(w, ": nothing\n\n")
		<-r.Context().Done()
	}))
	defer silent.Close()
	h := connect(t, Options{URL: silent.URL, InitializeTimeout: time.Minute})
	_, err := h.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{})
	var e *Error
	if !errors.As(err, &e) || e.Kind != Refused || e.Status != http.StatusMethodNotAllowed || e.MayHaveRun {
		t.Errorf("error: %v", err)
	}
	check(t, "era", h.detector.get(), Legacy)
}
