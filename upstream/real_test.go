package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

func TestEverything(t *testing.T) {
	server := mcptest.Everything(t, "streamableHttp")
	h := connect(t, Options{URL: server.URL})

	t.Run("info", func(t *testing.T) {
		info, err := h.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check(t, "modern", info.Modern, false)
		if !strings.Contains(string(info.ServerInfo), "mcp-servers/everything") || info.Capabilities == nil {
			t.Errorf("info: %s %s", info.ServerInfo, info.Capabilities)
		}
	})

	t.Run("slow call with progress", func(t *testing.T) {
		rec := &recorder{}
		reply, err := h.Call(t.Context(), toolCall(10, "trigger-long-running-operation", `{"duration":0.3,"steps":3}`), rec)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reply.Result), "Long running operation completed") {
			t.Errorf("result: %s", reply.Result)
		}
		progress, _, _ := rec.seen()
		equal(t, "progress", progress, `{"progress":1,"total":3}`, `{"progress":2,"total":3}`, `{"progress":3,"total":3}`)
	})

	t.Run("elicitation", func(t *testing.T) {
		rec := &recorder{ask: func(context.Context, string, wire.Raw) (wire.Raw, *wire.Error) {
			return wire.Raw(`{"action":"accept","content":{"name":"Ann","check":true}}`), nil
		}}
		reply, err := h.Call(t.Context(), toolCall(11, "trigger-elicitation-request", `{}`), rec)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reply.Result), "Ann") {
			t.Errorf("result: %s", reply.Result)
		}
		_, _, asked := rec.seen()
		equal(t, "asked", asked, "elicitation/create")
	})

	t.Run("sampling", func(t *testing.T) {
		rec := &recorder{ask: func(context.Context, string, wire.Raw) (wire.Raw, *wire.Error) {
			return wire.Raw(`{"role":"assistant","model":"m","content":{"type":"text","text":"poem-7"},"stopReason":"endTurn"}`), nil
		}}
		reply, err := h.Call(t.Context(), toolCall(12, "trigger-sampling-request", `{"prompt":"hi","maxTokens":20}`), rec)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reply.Result), "poem-7") {
			t.Errorf("result: %s", reply.Result)
		}
	})

	t.Run("resource updates", func(t *testing.T) {
		r := toolCall(17, "toggle-subscriber-updates", `{}`)
		want := wire.Filter{Tools: true, URIs: []string{"demo://resource/dynamic/text/1"}}
		s, err := h.Listen(t.Context(), ListenRequest{Want: want, Principal: r.Principal, Capabilities: r.Capabilities})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		check(t, "honoured", s.Honoured().Equal(want), true)
		if _, err := h.Call(t.Context(), r, &recorder{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "an update", func() bool {
			return slices.ContainsFunc(s.Take(), func(n Notification) bool { return wire.UpdatedURI(n.Params) == want.URIs[0] })
		})
	})

	t.Run("a tool that runs only as a task", func(t *testing.T) {
		rec := &recorder{ask: func(context.Context, string, wire.Raw) (wire.Raw, *wire.Error) {
			return wire.Raw(`{"action":"accept","content":{"interpretation":"snake"}}`), nil
		}}
		reply, err := h.Call(t.Context(), toolCall(18, "simulate-research-query", `{"topic":"python","ambiguous":true}`), rec)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reply.Result), "Research Report: python (snake)") {
			t.Errorf("result: %s", reply.Result)
		}
		progress, _, asked := rec.seen()
		equal(t, "asked", asked, "elicitation/create")
		if len(progress) < 3 {
			t.Errorf("progress: %q", progress)
		}
	})

	t.Run("what was not declared is not offered", func(t *testing.T) {
		r := toolCall(13, "trigger-elicitation-request", `{}`)
		r.Capabilities = wire.ParseCapabilities(nil)
		reply, err := h.Call(t.Context(), r, &recorder{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reply.Result), "not found") {
			t.Errorf("result: %s", reply.Result)
		}
	})

	t.Run("cancel, which it never answers", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		rec := &recorder{}
		done := make(chan error, 1)
		go func() {
			_, err := h.Call(ctx, toolCall(14, "trigger-long-running-operation", `{"duration":60,"steps":600}`), rec)
			done <- err
		}()
		eventually(t, "progress", func() bool { p, _, _ := rec.seen(); return len(p) > 0 })
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error: %v", err)
			}
		case <-time.After(deadline):
			t.Fatal("still waiting for an answer")
		}
	})

	t.Run("session lost and regained", func(t *testing.T) {
		server.Kill()
		_, err := h.Call(t.Context(), toolCall(15, "echo", `{"message":"x"}`), &recorder{})
		var e *Error
		if !errors.As(err, &e) || e.Kind != Unreachable || e.MayHaveRun {
			t.Fatalf("while down: %v", err)
		}
		server.Start()
		reply, err := h.Call(t.Context(), toolCall(16, "echo", `{"message":"back"}`), &recorder{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reply.Result), "back") {
			t.Errorf("result: %s", reply.Result)
		}
	})
}

func TestEverythingSessionsEndOnClose(t *testing.T) {
	server := mcptest.Everything(t, "streamableHttp")
	h, err := NewHTTP(Options{Name: "test", URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Call(t.Context(), toolCall(1, "echo", `{"message":"x"}`), &recorder{}); err != nil {
		t.Fatal(err)
	}
	var session string
	for _, list := range h.sessions.sessions {
		session = list[0].id
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	body := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	req, _ := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if session == "" || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("session %q after Close: HTTP %d, want it to be unknown (400)", session, resp.StatusCode)
	}
	_, err = h.Call(t.Context(), toolCall(3, "echo", `{}`), &recorder{})
	if !isKind(err, Closed) {
		t.Errorf("call after Close: %v", err)
	}
}

// server-everything replays, of all streams of the session, and never goes live.
func TestEverythingIsResumed(t *testing.T) {
	server := mcptest.Everything(t, "streamableHttp")
	call := func(t *testing.T, h *Connector, tool, arguments string, k *keeper) *pending {
		return begin(t, func(ctx context.Context) (Reply, error) { return h.Call(ctx, toolCall(7, tool, arguments), k) })
	}
	resume := func(t *testing.T, h *Connector, tool string, from, to *keeper) *pending {
		return begin(t, func(ctx context.Context) (Reply, error) {
			return h.Resume(ctx, from.got().bytes(), toolCall(99, tool, `{}`), to)
		})
	}
	fresh := func(t *testing.T) *Connector {
		return connect(t, Options{URL: server.URL, Retry: 200 * time.Millisecond})
	}

	t.Run("a long call", func(t *testing.T) {
		h, k := fresh(t), newKeeper()
		running := call(t, h, "trigger-long-running-operation", `{"duration":3,"steps":6}`, k)
		eventually(t, "progress", func() bool { p, _, _ := k.seen(); return len(p) > 0 })
		running.leaves()
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		later := newKeeper()
		if got := resume(t, fresh(t), "trigger-long-running-operation", k, later).text(); !strings.HasPrefix(got, "Long running operation completed") {
			t.Errorf("result: %s", got)
		}
		before, _, _ := k.seen()
		after, _, _ := later.seen()
		check(t, "progress, each once", len(before)+len(after), 6)
	})

	t.Run("two questions", func(t *testing.T) {
		h := fresh(t)
		first, second := newKeeper(), newKeeper()
		a := begin(t, func(ctx context.Context) (Reply, error) {
			return h.Call(ctx, toolCall(7, "trigger-elicitation-request", `{}`), first)
		})
		eventually(t, "the first question", func() bool { return len(first.got().Open) == 1 })
		b := begin(t, func(ctx context.Context) (Reply, error) {
			return h.Call(ctx, toolCall(8, "trigger-elicitation-request", `{}`), second)
		})
		eventually(t, "the second question", func() bool { return len(second.got().Open) == 1 })
		a.leaves()
		b.leaves()
		h = fresh(t)
		a2, b2 := newKeeper(), newKeeper()
		one, two := resume(t, h, "trigger-elicitation-request", first, a2), resume(t, h, "trigger-elicitation-request", second, b2)
		eventually(t, "both are asked again", func() bool { return a2.questions() != "" && b2.questions() != "" })
		b2.answers <- "Bob"
		if reply, err := two.wait(); err != nil || !strings.Contains(string(reply.Result), "Bob") {
			t.Errorf("second: %s, %v", reply.Result, err)
		}
		a2.answers <- "Ann"
		if reply, err := one.wait(); err != nil || !strings.Contains(string(reply.Result), "Ann") {
			t.Errorf("first: %s, %v", reply.Result, err)
		}
		check(t, "the first was asked", a2.questions()+b2.questions(), string(first.got().Open[0])+" "+string(second.got().Open[0])+" ")
	})

	t.Run("a task of its own", func(t *testing.T) {
		h, k := fresh(t), newKeeper()
		running := call(t, h, "simulate-research-query", `{"topic":"python","ambiguous":true}`, k)
		eventually(t, "the question", func() bool { return len(k.got().Open) == 1 })
		running.leaves()
		later := newKeeper()
		resumed := resume(t, fresh(t), "simulate-research-query", k, later)
		later.answers <- "Ann"
		if got := resumed.text(); !strings.HasPrefix(got, "# Research Report: python") {
			t.Errorf("result: %s", got)
		}
	})
}
