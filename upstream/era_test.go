package upstream

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func connectAuto(t *testing.T, s *scripted) *Connector {
	t.Helper()
	return connect(t, Options{URL: s.URL, InitializeTimeout: 200 * time.Millisecond})
}

const discovered = `"result":{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{}}`

func TestProbe(t *testing.T) {
	status := func(code int, body string) func(http.ResponseWriter, received) {
		return func(w http.ResponseWriter, _ received) { http.Error(w, body, code) }
	}
	rpc := func(code int, rest string) func(http.ResponseWriter, received) {
		return func(w http.ResponseWriter, r received) { replyJSON(w, code, r.ID, rest) }
	}
	tests := []struct {
		name   string
		answer func(http.ResponseWriter, received)
		era    Era
		kind   ErrorKind
	}{
		{"discover lists modern", rpc(200, discovered), Modern, ""},
		{"discover lists legacy only", rpc(200, `"result":{"supportedVersions":["2025-11-25"]}`), Legacy, ""},
		{"discover lists nothing", rpc(200, `"result":{}`), Legacy, ""},
		{"-32601", rpc(200, `"error":{"code":-32601,"message":"Method not found"}`), Legacy, ""},
		{"404 -32601", rpc(404, `"error":{"code":-32601,"message":"Method not found"}`), Legacy, ""},
		{"400 -32000", rpc(400, `"error":{"code":-32000,"message":"Bad Request: Server not initialized"}`), Legacy, ""},
		{"400 -32022 legacy", rpc(400, `"error":{"code":-32022,"message":"m","data":{"supported":["2025-11-25"]}}`), Legacy, ""},
		{"400 -32022 modern", rpc(400, `"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}}`), Modern, ""},
		{"400 -32021", rpc(400, `"error":{"code":-32021,"message":"m"}`), Modern, ""},
		{"400 -32020", rpc(400, `"error":{"code":-32020,"message":"m"}`), Modern, ""},
		{"400 empty", status(400, ""), Legacy, ""},
		{"404 text", status(404, "not found"), Legacy, ""},
		{"405", status(405, ""), Legacy, ""},
		{"406", status(406, ""), Legacy, ""},
		{"202 without a body", status(202, ""), Legacy, ""},
		{"200 with a page", status(200, "<html>"), Legacy, ""},
		{"401", status(401, ""), "", Unauthorized},
		{"403", status(403, ""), "", Unauthorized},
		{"429", status(429, ""), "", Refused},
		{"500", status(500, "oops"), "", Refused},
		{"503", status(503, ""), "", Refused},
		{"307", status(307, ""), "", Refused},
		{"breaks off", func(w http.ResponseWriter, _ received) {
			stream(w, "data: {")
			panic(http.ErrAbortHandler)
		}, "", Broken},
		{"silent", func(_ http.ResponseWriter, r received) { waitForCancel(r) }, "", TimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r received) bool {
				if r.Method == "server/discover" {
					tt.answer(w, r)
					return true
				}
				return answering(fast)(w, r)
			})
			h := connectAuto(t, s)
			_, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
			var e *Error
			switch {
			case tt.kind != "":
				if !errors.As(err, &e) || e.Kind != tt.kind || e.MayHaveRun || errors.Is(err, ErrOutcomeUnknown) {
					t.Errorf("error: %v", err)
				}
				check(t, "era", h.detector.get(), Auto)
				check(t, "calls", len(s.all(method("tools/call"))), 0)
			case err != nil:
				t.Error(err)
			default:
				check(t, "era", h.detector.get(), tt.era)
			}
		})
	}
}

func TestProbeIsSharedAndRemembered(t *testing.T) {
	gate := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		if r.Method == "server/discover" {
			<-gate
			replyJSON(w, 200, r.ID, discovered)
			return true
		}
		return answering(fast)(w, r)
	})
	h := connect(t, Options{URL: s.URL})
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
	check(t, "probes", len(s.all(method("server/discover"))), 1)
}

// changing is a server whose era a test switches. Each request of the wrong era
// is refused as the real ones do.
func changing(t *testing.T, modern *atomic.Bool) *scripted {
	return serve(t, func(w http.ResponseWriter, r received) bool {
		speaksModern := r.header.Get("Mcp-Method") != ""
		switch {
		case !modern.Load() && speaksModern:
			replyJSON(w, 400, nil, `"error":{"code":-32000,"message":"Bad Request: Server not initialized"}`)
		case modern.Load() && r.http == http.MethodPost && !speaksModern:
			replyJSON(w, 400, r.ID, `"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}}`)
		case r.Method == "server/discover":
			replyJSON(w, 200, r.ID, discovered)
		default:
			return answering(fast)(w, r)
		}
		return true
	})
}

func TestVerdictThatProvesWrong(t *testing.T) {
	var modern atomic.Bool
	modern.Store(true)
	s := changing(t, &modern)
	h := connectAuto(t, s)
	for i, now := range []bool{true, false, false, true, true} {
		modern.Store(now)
		if _, err := h.Call(t.Context(), toolCall(uint64(i+1), "x", `{}`), &recorder{}); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	equal(t, "messages", s.methods(),
		"server/discover", "tools/call", // modern
		"tools/call", "server/discover", "initialize", "notifications/initialized", "tools/call", // legacy now
		"tools/call",                    // ... still
		"tools/call", "server/discover", // modern again: refused in its old session
		"tools/call", "tools/call")
}

func TestModernOnlyServerRefusesInitialize(t *testing.T) {
	var modern atomic.Bool
	s := changing(t, &modern)
	h := connectAuto(t, s)
	h.detector.set(Legacy) // as it was before the server was replaced
	modern.Store(true)
	info, err := h.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check(t, "modern", info.Modern, true)
	if _, err := h.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "messages", s.methods(), "initialize", "server/discover", "server/discover", "tools/call")
}

func TestNoSecondTryWhenTheCallMayHaveRun(t *testing.T) {
	for name, fail := range map[string]func(http.ResponseWriter, received){
		"502":     func(w http.ResponseWriter, _ received) { w.WriteHeader(502) },
		"200":     func(w http.ResponseWriter, _ received) { w.WriteHeader(200) },
		"breaks":  func(w http.ResponseWriter, _ received) { panic(http.ErrAbortHandler) },
		"mid-way": func(w http.ResponseWriter, _ received) { stream(w, ": x\n\n"); panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, era := range []Era{Modern, Legacy} {
				s := serve(t, answering(fail))
				h := connect(t, Options{URL: s.URL})
				h.detector.set(era)
				_, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
				if !errors.Is(err, ErrOutcomeUnknown) {
					t.Errorf("error: %v", err)
				}
				check(t, "calls", len(s.all(method("tools/call"))), 1)
				check(t, "era", h.detector.get(), era)
			}
		})
	}
}

// TestCodesOfTheServersOwn: what only a modern server means by a code with HTTP
// 400, any legacy tool may mean something else by.
func TestCodesOfTheServersOwn(t *testing.T) {
	for _, era := range []Era{Modern, Legacy} {
		s := serve(t, answering(func(w http.ResponseWriter, r received) {
			replyJSON(w, 200, r.ID, `"error":{"code":-32022,"message":"the robot is out of paint"}`)
		}))
		h := connect(t, Options{URL: s.URL})
		h.detector.set(era)
		reply, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
		if err != nil || reply.Error == nil {
			t.Errorf("%s: %s %v", era, reply.Result, err)
		}
		check(t, "probes", len(s.all(method("server/discover"))), 0)
		check(t, "calls", len(s.all(method("tools/call"))), 1)
	}
}

func TestFixedEraIsNotProbed(t *testing.T) {
	for _, era := range []Era{Modern, Legacy} {
		s := serve(t, func(w http.ResponseWriter, r received) bool { w.WriteHeader(http.StatusBadRequest); return true })
		h := connect(t, Options{URL: s.URL, Era: era})
		if _, err := h.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{}); !isKind(err, Refused) {
			t.Errorf("%s: %v", era, err)
		}
		check(t, "probes", len(s.all(method("server/discover"))), 0)
	}
}

func TestUnreadCallIsNotRepeatedInTheSameEra(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		if r.Method == "server/discover" {
			replyJSON(w, 200, r.ID, discovered)
			return true
		}
		http.Error(w, "no such page", http.StatusNotFound)
		return true
	})
	h := connectAuto(t, s)
	_, err := h.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{})
	check(t, "refused", isKind(err, Refused), true)
	check(t, "calls", len(s.all(method("tools/call"))), 1)
}
