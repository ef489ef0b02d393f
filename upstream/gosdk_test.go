package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// goSDK is a server of the Go SDK: dual-era when stateless, else legacy.
type goSDK struct {
	*httptest.Server
	handler   atomic.Pointer[mcp.StreamableHTTPHandler]
	deleted   atomic.Int32
	begun     atomic.Int32  // calls of "wait"
	cancelled chan struct{} // gets a value when a running "wait" is cancelled
	release   chan struct{} // ends "wait" otherwise
	stop      func()
}

func startGoSDK(t *testing.T, o mcp.StreamableHTTPOptions) *goSDK {
	t.Helper()
	s := &goSDK{cancelled: make(chan struct{}, 1000), release: make(chan struct{})}
	s.restart(o)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			s.deleted.Add(1)
		}
		s.handler.Load().ServeHTTP(w, r)
	}))
	s.stop = sync.OnceFunc(func() {
		close(s.release)
		s.Close()
	})
	t.Cleanup(s.stop)
	return s
}

// restart replaces the server by one that knows no session.
func (s *goSDK) restart(o mcp.StreamableHTTPOptions) {
	server := mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "1"}, nil)
	tool := func(name string, f func(context.Context, *mcp.CallToolRequest) (string, error)) {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(ctx context.Context, r *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, any, error) {
			text, err := f(ctx, r)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
		})
	}
	tool("progress", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		for i := range 3 {
			r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // fails where answers are JSON
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Message: "step"})
		}
		return "done", nil
	})
	tool("wait", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		s.begun.Add(1)
		r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
		select {
		case <-ctx.Done():
			s.cancelled <- struct{}{}
			return "", ctx.Err()
		case <-s.release:
			return "released", nil
		}
	})
	tool("ask", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		e, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "name?"})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(e.Action, e.Content["name"]), nil
	})
	tool("sample", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		//lint:ignore SA1019 servers of 2025-11-25 still sample
		m, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 9})
		if err != nil {
			return "", err
		}
		return m.Model, nil
	})
	tool("roots", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		//lint:ignore SA1019 servers of 2025-11-25 still ask for roots
		l, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return "", err
		}
		return l.Roots[0].URI, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "mrtr"}, func(ctx context.Context, r *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"k": &mcp.ElicitParams{Message: "name?"}}}, nil, nil
	})
	s.handler.Store(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &o))
}

func answers(ctx context.Context, method string, _ wire.Raw) (wire.Raw, *wire.Error) {
	switch method {
	case wire.MethodElicit:
		return wire.Raw(`{"action":"accept","content":{"name":"Ann"}}`), nil
	case wire.MethodSampling:
		return wire.Raw(`{"role":"assistant","model":"m-1","content":{"type":"text","text":"x"}}`), nil
	}
	return wire.Raw(`{"roots":[{"uri":"file:///r"}]}`), nil
}

func TestGoSDK(t *testing.T) {
	kinds := map[string]struct {
		options mcp.StreamableHTTPOptions
		era     Era
		modern  bool
	}{
		"stateful, found to be legacy":     {mcp.StreamableHTTPOptions{}, Auto, false},
		"stateful with JSON answers":       {mcp.StreamableHTTPOptions{JSONResponse: true}, Auto, false},
		"stateless, found to be modern":    {mcp.StreamableHTTPOptions{Stateless: true}, Auto, true},
		"stateless with JSON answers":      {mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}, Auto, true},
		"stateless, spoken to in its past": {mcp.StreamableHTTPOptions{Stateless: true}, Legacy, false},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			s := startGoSDK(t, kind.options)
			h := connect(t, Options{URL: s.URL, Era: kind.era})
			info, err := h.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			check(t, "modern", info.Modern, kind.modern)
			if !strings.Contains(string(info.ServerInfo), "go-sdk") {
				t.Errorf("server info: %s", info.ServerInfo)
			}
			rec := &recorder{ask: answers}
			reply, err := h.Call(t.Context(), toolCall(5, "progress", `{}`), rec)
			if err != nil || !strings.Contains(string(reply.Result), "done") {
				t.Fatalf("reply: %s %s %v", reply.Result, reply.Error, err)
			}
			progress, _, _ := rec.seen()
			if !kind.options.JSONResponse && len(progress) != 3 {
				t.Errorf("progress: %q", progress)
			}
			s.cancels(t, h, kind.options)
			if kind.modern {
				reply, err = h.Call(t.Context(), toolCall(6, "mrtr", `{}`), rec)
				if err != nil || !strings.Contains(string(reply.Result), `"input_required"`) {
					t.Errorf("reply: %s %s %v", reply.Result, reply.Error, err)
				}
			}
		})
	}
}

// cancels checks that a call can be cancelled while it runs, and that the tool
// learns of it where the server cares: a stateless one lets it run on, as of
// 1.8.0, whether the stream is closed or a notification comes.
func (s *goSDK) cancels(t *testing.T, h *Connector, o mcp.StreamableHTTPOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.begun.Store(0)
	done := make(chan error, 1)
	go func() {
		_, err := h.Call(ctx, toolCall(7, "wait", `{}`), &recorder{})
		done <- err
	}()
	eventually(t, "the tool runs", func() bool { return s.begun.Load() == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	if !o.Stateless {
		<-s.cancelled
	}
}

func TestGoSDKQuestions(t *testing.T) {
	s := startGoSDK(t, mcp.StreamableHTTPOptions{})
	h := connect(t, Options{URL: s.URL})
	for tool, want := range map[string]string{"ask": "acceptAnn", "sample": "m-1", "roots": "file:///r"} {
		reply, err := h.Call(t.Context(), toolCall(5, tool, `{}`), &recorder{ask: answers})
		if err != nil || !strings.Contains(string(reply.Result), want) {
			t.Errorf("%s: %s %s %v", tool, reply.Result, reply.Error, err)
		}
	}
}

func TestGoSDKSessionLostAndRegained(t *testing.T) {
	s := startGoSDK(t, mcp.StreamableHTTPOptions{})
	h := connect(t, Options{URL: s.URL})
	for id := range uint64(3) {
		s.restart(mcp.StreamableHTTPOptions{})
		reply, err := h.Call(t.Context(), toolCall(id+1, "progress", `{}`), &recorder{})
		if err != nil || reply.Result == nil {
			t.Fatalf("reply: %s %v", reply.Error, err)
		}
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, "sessions ended", s.deleted.Load(), 1)
}

func TestGoSDKReplacedByOneOfAnotherEra(t *testing.T) {
	s := startGoSDK(t, mcp.StreamableHTTPOptions{Stateless: true})
	h := connect(t, Options{URL: s.URL})
	for i, stateless := range []bool{true, false, true} {
		s.restart(mcp.StreamableHTTPOptions{Stateless: stateless})
		reply, err := h.Call(t.Context(), toolCall(uint64(i+1), "progress", `{}`), &recorder{})
		if err != nil || reply.Result == nil {
			t.Fatalf("call %d: %s %v", i, reply.Error, err)
		}
	}
}

// TestNothingIsLeftBehind makes many calls at once, of which some are
// cancelled, some ask and some just end.
func TestNothingIsLeftBehind(t *testing.T) {
	for name, o := range map[string]mcp.StreamableHTTPOptions{"legacy": {}, "modern": {Stateless: true}} {
		t.Run(name, func(t *testing.T) {
			mcptest.Goroutines(t)
			s := startGoSDK(t, o)
			h, err := NewHTTP(Options{Name: "test", URL: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			manyCalls(t, h)
			if err := h.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, ours := range []string{"(*Connector)", "(*endpoint)", "(*conversation)", "(*flights"} {
				check(t, "left when Close returns: "+ours, strings.Contains(goroutines(), "taskgate/upstream."+ours), false)
			}
		})
	}
}

func goroutines() string {
	b := make([]byte, 4<<20)
	return string(b[:runtime.Stack(b, true)])
}

func manyCalls(t *testing.T, h *Connector) {
	var wg sync.WaitGroup
	for i := range 200 {
		r := toolCall(uint64(i+1), "progress", `{}`)
		r.Principal = fmt.Sprint("t/", i%10)
		ctx, cancel := context.WithCancel(t.Context())
		rec := &recorder{ask: answers}
		switch i % 4 {
		case 1:
			r.Params = object(t, `{"name":"ask","arguments":{}}`)
		case 2:
			r.Params = object(t, `{"name":"wait","arguments":{}}`)
			rec.onProgress = cancel
		case 3:
			r.Params = object(t, `{"name":"mrtr","arguments":{}}`)
		}
		wg.Go(func() {
			defer cancel()
			reply, err := h.Call(ctx, r, rec)
			if cancelled := i%4 == 2; cancelled != errors.Is(err, context.Canceled) || !cancelled && reply.Result == nil {
				t.Errorf("call %d: %s %v", i, reply.Error, err)
			}
		})
	}
	wg.Wait()
}

// The Go SDK's event store keeps streams apart and goes live.
func TestGoSDKCallsAreResumed(t *testing.T) {
	s := startGoSDK(t, mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
	fresh := func() *Connector { return connect(t, Options{URL: s.URL, Retry: 50 * time.Millisecond}) }
	call := func(h *Connector, id uint64, tool string, k *keeper) *pending {
		return begin(t, func(ctx context.Context) (Reply, error) { return h.Call(ctx, toolCall(id, tool, `{}`), k) })
	}
	resume := func(h *Connector, tool string, from, to *keeper) *pending {
		return begin(t, func(ctx context.Context) (Reply, error) {
			return h.Resume(ctx, from.got().bytes(), toolCall(99, tool, `{}`), to)
		})
	}
	h, asked, waiting := fresh(), newKeeper(), newKeeper()
	asking := call(h, 1, "ask", asked)
	eventually(t, "the question", func() bool { return len(asked.got().Open) == 1 })
	running := call(h, 2, "wait", waiting)
	eventually(t, "progress", func() bool { p, _, _ := waiting.seen(); return len(p) == 1 && waiting.got().Event != "" })
	asking.leaves()
	running.leaves()
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	h = fresh()
	askedLater, waitingLater := newKeeper(), newKeeper()
	askingLater, runningLater := resume(h, "ask", asked, askedLater), resume(h, "wait", waiting, waitingLater)
	askedLater.answers <- "Ann"
	check(t, "answered", askingLater.text(), "acceptAnn")
	s.release <- struct{}{}
	check(t, "released", runningLater.text(), "released")
	check(t, "runs", s.begun.Load(), 1)
	check(t, "nobody was asked twice", askedLater.questions()+waitingLater.questions(), string(asked.got().Open[0])+" ")
	check(t, "sessions ended", s.deleted.Load(), 0)
}
