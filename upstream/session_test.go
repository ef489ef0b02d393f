package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskgate/wire"
)

func TestLostSession(t *testing.T) {
	forms := map[string]func(w http.ResponseWriter, r received){
		"400 -32000 No valid session ID": func(w http.ResponseWriter, r received) {
			replyJSON(w, 400, nil, `"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}`)
		},
		"400 -32000 Server not initialized": func(w http.ResponseWriter, r received) {
			replyJSON(w, 400, nil, `"error":{"code":-32000,"message":"Bad Request: Server not initialized"}`)
		},
		"400 text": func(w http.ResponseWriter, r received) { http.Error(w, "Invalid session ID", 400) },
		"404 text": func(w http.ResponseWriter, r received) { http.Error(w, "session not found", 404) },
		"404 -32001": func(w http.ResponseWriter, r received) {
			replyJSON(w, 404, nil, `"error":{"code":-32001,"message":"Session not found"}`)
		},
		"404 -32001 with our id": func(w http.ResponseWriter, r received) {
			replyJSON(w, 404, r.ID, `"error":{"code":-32001,"message":"Session not found"}`)
		},
		"404 with an id of the server's own": func(w http.ResponseWriter, r received) {
			replyJSON(w, 404, wire.Raw(`"server-error"`), `"error":{"code":-32600,"message":"Session not found"}`)
		},
	}
	for name, lose := range forms {
		t.Run(name, func(t *testing.T) {
			var inits atomic.Int32
			s := serve(t, func(w http.ResponseWriter, r received) bool {
				switch r.Method {
				case "initialize":
					w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s-%d", inits.Add(1)))
					replyJSON(w, 200, r.ID, `"result":{"protocolVersion":"2025-11-25","capabilities":{}}`)
				case "tools/call":
					if r.header.Get("Mcp-Session-Id") == "s-1" {
						lose(w, r)
						break
					}
					fast(w, r)
				default:
					return false
				}
				return true
			})
			h := connectLegacy(t, s, Options{})
			if _, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{}); err != nil {
				t.Fatal(err)
			}
			equal(t, "messages", s.methods(), "initialize", "notifications/initialized", "tools/call",
				"initialize", "notifications/initialized", "tools/call")
			check(t, "session header of initialize", s.got[3].header.Get("Mcp-Session-Id"), "")
			if err := h.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			ended := s.all(func(r received) bool { return r.http == http.MethodDelete })
			check(t, "sessions ended", len(ended), 1)
			check(t, "session ended", ended[0].header.Get("Mcp-Session-Id"), "s-2")
		})
	}
}

func TestErrorsThatAreNoLostSession(t *testing.T) {
	forms := map[string]func(w http.ResponseWriter, r received){
		"400 -32602 about a session argument": func(w http.ResponseWriter, r received) {
			replyJSON(w, 400, r.ID, `"error":{"code":-32602,"message":"argument session is missing"}`)
		},
		"404 -32601": func(w http.ResponseWriter, r received) {
			replyJSON(w, 404, r.ID, `"error":{"code":-32601,"message":"Method not found"}`)
		},
		"200 with an error": func(w http.ResponseWriter, r received) {
			replyJSON(w, 200, r.ID, `"error":{"code":-32000,"message":"no session"}`)
		},
	}
	for name, fail := range forms {
		t.Run(name, func(t *testing.T) {
			s := serve(t, answering(fail))
			h := connectLegacy(t, s, Options{})
			reply, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
			if err != nil || reply.Error == nil {
				t.Fatalf("reply %s, error %v", reply.Error, err)
			}
			check(t, "calls", len(s.all(method("tools/call"))), 1)
		})
	}
}

func TestSessionThatIsLostAgainAndAgain(t *testing.T) {
	s := serve(t, answering(func(w http.ResponseWriter, r received) { http.Error(w, "session not found", 404) }))
	h := connectLegacy(t, s, Options{})
	_, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
	var e *Error
	if !errors.As(err, &e) || e.Kind != Refused || e.MayHaveRun {
		t.Errorf("error: %v", err)
	}
	check(t, "calls", len(s.all(method("tools/call"))), 2)
}

func TestManyCallsThatLoseOneSessionOpenOne(t *testing.T) {
	const n = 20
	var inits atomic.Int32
	var arrived sync.WaitGroup
	arrived.Add(n)
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		switch {
		case r.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s-%d", inits.Add(1)))
			replyJSON(w, 200, r.ID, `"result":{"protocolVersion":"2025-11-25","capabilities":{}}`)
		case r.Method == "tools/call" && r.header.Get("Mcp-Session-Id") == "s-1":
			arrived.Done()
			arrived.Wait()
			http.Error(w, "session not found", 404)
		default:
			return answering(fast)(w, r)
		}
		return true
	})
	h := connectLegacy(t, s, Options{})
	var wg sync.WaitGroup
	for id := range uint64(n) {
		wg.Go(func() {
			if _, err := h.Call(t.Context(), toolCall(id+1, "x", `{}`), &recorder{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	check(t, "sessions opened", inits.Load(), 2)
}

// sessionsOf counts the sessions that requests for (principal, capabilities) make.
func sessionsOf(t *testing.T, h *Connector, s *scripted, callers ...[2]string) int {
	t.Helper()
	for i, c := range callers {
		r := toolCall(uint64(i+1), "x", `{}`)
		r.Principal, r.Capabilities = c[0], wire.ParseCapabilities(wire.Raw(c[1]))
		if _, err := h.Call(t.Context(), r, &recorder{}); err != nil {
			t.Fatal(err)
		}
	}
	return len(s.all(method("initialize")))
}

func TestWhoSharesASession(t *testing.T) {
	s := serve(t, answering(fast))
	h := connectLegacy(t, s, Options{})
	check(t, "one principal", sessionsOf(t, h, s, [2]string{"a", `{}`}, [2]string{"a", `{"extensions":{"x":{}}}`}), 1)
	check(t, "another principal", sessionsOf(t, h, s, [2]string{"b", `{}`}), 2)
	check(t, "other capabilities", sessionsOf(t, h, s, [2]string{"a", `{"roots":{}}`}), 3)
	check(t, "the first again", sessionsOf(t, h, s, [2]string{"a", `{}`}), 3)
}

func TestIsolationOverHTTP(t *testing.T) {
	for isolation, want := range map[Isolation]struct{ opened, ended int }{Shared: {1, 0}, PerPrincipal: {2, 0}, PerCall: {3, 3}} {
		t.Run(string(isolation), func(t *testing.T) {
			s := serve(t, answering(fast))
			h := connectLegacy(t, s, Options{Isolation: isolation})
			check(t, "opened", sessionsOf(t, h, s, [2]string{"a", `{}`}, [2]string{"a", `{}`}, [2]string{"b", `{}`}), want.opened)
			eventually(t, "ended are those of a call alone", func() bool {
				return len(s.all(func(r received) bool { return r.http == http.MethodDelete })) == want.ended
			})
		})
	}
}

func TestSessionIsOpenedOnceForAll(t *testing.T) {
	gate := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		if r.Method == "initialize" {
			<-gate
		}
		return answering(fast)(w, r)
	})
	h := connectLegacy(t, s, Options{})
	var wg sync.WaitGroup
	var begun atomic.Int32
	for id := range uint64(10) {
		wg.Go(func() {
			begun.Add(1)
			if _, err := h.Call(t.Context(), toolCall(id+1, "x", `{}`), &recorder{}); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all have begun", func() bool { return begun.Load() == 10 })
	close(gate)
	wg.Wait()
	check(t, "initialize", len(s.all(method("initialize"))), 1)
}

func TestOpeningOutlivesWhoBeganIt(t *testing.T) {
	reached, gate := make(chan struct{}, 9), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		if r.Method == "initialize" {
			reached <- struct{}{}
			<-gate
		}
		return answering(fast)(w, r)
	})
	h := connectLegacy(t, s, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	call := func(ctx context.Context, id uint64, done chan error) {
		_, err := h.Call(ctx, toolCall(id, "x", `{}`), &recorder{})
		done <- err
	}
	go call(ctx, 1, first)
	<-reached
	go call(t.Context(), 2, second)
	eventually(t, "the second waits too", func() bool {
		h.sessions.opening.mu.Lock()
		defer h.sessions.opening.mu.Unlock()
		return h.sessions.opening.all[keyOf(toolCall(1, "", "{}"))].waiters == 2
	})
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("first: %v", err)
	}
	close(gate)
	if err := <-second; err != nil {
		t.Errorf("second: %v", err)
	}
	check(t, "initialize", len(s.all(method("initialize"))), 1)
}

func TestSessionLimit(t *testing.T) {
	running, gate := make(chan struct{}), make(chan struct{})
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		if r.header.Get("Authorization") == "busy" {
			close(running)
			<-gate
		}
		fast(w, r)
	}))
	h := connectLegacy(t, s, Options{MaxSessions: 2, Now: ticking()})
	busy := toolCall(9, "x", `{}`)
	busy.Principal, busy.Header = "busy", http.Header{"Authorization": {"busy"}}
	done := make(chan error, 1)
	go func() {
		_, err := h.Call(t.Context(), busy, &recorder{})
		done <- err
	}()
	<-running
	sessionsOf(t, h, s, [2]string{"a", `{}`}, [2]string{"b", `{}`})
	deleted := s.all(func(r received) bool { return r.http == http.MethodDelete })
	check(t, "idle sessions that had to go", len(deleted), 1)
	check(t, "open", h.sessions.size(), 2)

	b := h.sessions.take(keyOf(Request{Principal: "b"}), false, nil, nil) // the other one is in use too
	_, err := h.Call(t.Context(), toolCall(3, "x", `{}`), &recorder{})
	var e *Error
	if !errors.As(err, &e) || e.Kind != Full || e.MayHaveRun {
		t.Errorf("error: %v", err)
	}
	h.sessions.release(b, Request{})
	close(gate)
	if err := <-done; err != nil {
		t.Errorf("the busy one: %v", err)
	}
}

// ticking is a clock that goes a second further each time it is read.
func ticking() func() time.Time {
	var n atomic.Int64
	return func() time.Time { return time.Unix(1_800_000_000+n.Add(1), 0) }
}

func TestIdleSessionsEnd(t *testing.T) {
	var now atomic.Int64
	s := serve(t, answering(fast))
	h := connectLegacy(t, s, Options{SessionIdle: time.Minute, Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	sessionsOf(t, h, s, [2]string{"a", `{}`}, [2]string{"b", `{}`})
	b := h.sessions.take(keyOf(Request{Principal: "b"}), false, nil, nil) // a call is running
	now.Add(60)
	h.runOnce(t.Context())
	check(t, "open at a minute", h.sessions.size(), 2)
	now.Add(1)
	h.runOnce(t.Context())
	check(t, "open after a minute", h.sessions.size(), 1)
	check(t, "ended", len(s.all(func(r received) bool { return r.http == http.MethodDelete })), 1)
	h.sessions.release(b, Request{})
}

func TestCloseLeavesSessionsWithRunningCalls(t *testing.T) {
	running, gate := make(chan struct{}), make(chan struct{})
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		close(running)
		<-gate
		fast(w, r)
	}))
	h := connectLegacy(t, s, Options{})
	done := make(chan error, 1)
	go func() {
		_, err := h.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{})
		done <- err
	}()
	<-running
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	_, err := h.Call(t.Context(), toolCall(2, "x", `{}`), &recorder{})
	check(t, "a new call is refused", isKind(err, Closed), true)
	check(t, "sessions ended", len(s.all(func(r received) bool { return r.http == http.MethodDelete })), 0)
	close(gate)
	if err := <-done; err != nil {
		t.Errorf("the running call: %v", err)
	}
}

func TestSessionThatIsNotLetInIsEnded(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		if r.Method == "notifications/initialized" {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return false
	})
	h := connectLegacy(t, s, Options{})
	_, err := h.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{})
	var e *Error
	if !errors.As(err, &e) || e.MayHaveRun || e.Status != 500 || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("error: %v", err)
	}
	equal(t, "messages", s.methods(), "initialize", "notifications/initialized", "DELETE")
}
