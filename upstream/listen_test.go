package upstream

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

const tellsAll = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`

// subscribe listens on behalf of ann until the test ends.
func subscribe(t *testing.T, h *Connector, want wire.Filter) *Subscription {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	s, err := h.Listen(ctx, ListenRequest{Want: want, Principal: "t/ann"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// next waits for what a subscription hears next: method, and URI if there is one.
func next(t *testing.T, s *Subscription) []string {
	t.Helper()
	var heard []string
	var notes []Notification
	eventually(t, "something is heard", func() bool {
		notes = s.Take()
		return len(notes) > 0
	})
	for _, n := range notes {
		text := strings.TrimPrefix(n.Method, "notifications/")
		if uri := wire.UpdatedURI(n.Params); uri != "" {
			text += " " + uri
		}
		heard = append(heard, text)
	}
	slices.Sort(heard)
	return heard
}

func note(method string) wire.Message { return wire.Message{Method: method} }

func updated(uri string) wire.Message {
	return wire.Message{Method: wire.NoteResource, Params: wire.Raw(fmt.Sprintf(`{"uri":%q}`, uri))}
}

func TestListenersShareAModernStream(t *testing.T) {
	u := mcptest.NewModern()
	u.Capabilities = wire.Raw(tellsAll)
	h := connect(t, Options{URL: u.Start(t)})

	tools := subscribe(t, h, wire.Filter{Tools: true})
	both := subscribe(t, h, wire.Filter{Tools: true, URIs: []string{"file:///a"}})
	eventually(t, "one stream for both", func() bool { return u.Listening() == 1 && len(u.Requests("subscriptions/listen")) == 2 })

	u.Broadcast(note(wire.NoteTools))
	equal(t, "first", next(t, tools), "tools/list_changed")
	equal(t, "second", next(t, both), "tools/list_changed")
	u.Broadcast(updated("file:///a/b"))
	equal(t, "of a resource below", next(t, both), "resources/updated file:///a/b")

	both.Close()
	eventually(t, "a stream for the rest", func() bool { return u.Listening() == 1 && len(u.Requests("subscriptions/listen")) == 3 })
	u.Broadcast(updated("file:///a"))
	u.Broadcast(note(wire.NoteTools))
	equal(t, "only what was asked for", next(t, tools), "tools/list_changed")
	tools.Close()
	eventually(t, "no stream without listeners", func() bool { return u.Listening() == 0 })
	check(t, "audiences", h.audiences.size(), 0)
}

func TestListenersOfOthersHaveTheirOwnStream(t *testing.T) {
	u := mcptest.NewModern()
	u.Capabilities = wire.Raw(tellsAll)
	h := connect(t, Options{URL: u.Start(t), MaxSessions: 4})
	for _, principal := range []string{"t/ann", "t/bob"} {
		s, err := h.Listen(t.Context(), ListenRequest{Want: wire.Filter{Tools: true}, Principal: principal})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	check(t, "streams", u.Listening(), 2)
	_, err := h.Listen(t.Context(), ListenRequest{Want: wire.Filter{Tools: true}, Principal: "t/eve"})
	if !isKind(err, Full) {
		t.Errorf("over the limit: %v", err)
	}
}

func TestOnlyWhatIsHonouredIsHeard(t *testing.T) {
	u := mcptest.NewModern()
	u.Capabilities = wire.Raw(`{"tools":{"listChanged":true}}`)
	h := connect(t, Options{URL: u.Start(t)})
	s := subscribe(t, h, wire.Filter{Tools: true, Prompts: true, URIs: []string{"file:///a"}})
	check(t, "honoured", string(s.Honoured().Object().Bytes()), `{"toolsListChanged":true}`)
}

// Who listens hears of a server that has had no call for long, whoever may share
// its session.
func TestAnIdleUpstreamIsHeard(t *testing.T) {
	for _, isolation := range []Isolation{Shared, PerPrincipal, PerCall} {
		for era, u := range map[Era]*mcptest.Upstream{Modern: mcptest.NewModern(), Legacy: mcptest.NewLegacy()} {
			t.Run(string(isolation)+" "+string(era), func(t *testing.T) {
				u.Capabilities = wire.Raw(tellsAll)
				var now atomic.Int64
				h := connect(t, Options{URL: u.Start(t), Isolation: isolation, SessionIdle: time.Minute, Now: func() time.Time { return time.Unix(now.Load(), 0) }})
				s := subscribe(t, h, wire.Filter{Tools: true})
				eventually(t, "a stream", func() bool { return u.Listening() == 1 })
				now.Add(3600)
				h.runOnce(t.Context())
				u.Broadcast(note(wire.NoteTools))
				equal(t, "heard", next(t, s), "tools/list_changed")
			})
		}
	}
}

func TestABrokenStreamIsOpenedAgain(t *testing.T) {
	for era, u := range map[Era]*mcptest.Upstream{Modern: mcptest.NewModern(), Legacy: mcptest.NewLegacy()} {
		t.Run(string(era), func(t *testing.T) {
			u.Capabilities = wire.Raw(tellsAll)
			u.Handle("resources/subscribe", func(wire.Object) (wire.Raw, *wire.Error) { return wire.Raw(`{}`), nil })
			u.Handle("resources/unsubscribe", func(wire.Object) (wire.Raw, *wire.Error) { return wire.Raw(`{}`), nil })
			h := connect(t, Options{URL: u.Start(t), Retry: time.Millisecond})
			s := subscribe(t, h, wire.Filter{Tools: true, URIs: []string{"file:///a"}})
			eventually(t, "a stream", func() bool { return u.Listening() == 1 })
			u.CutListening()
			equal(t, "told to look again", next(t, s), "resources/updated file:///a", "tools/list_changed")
			eventually(t, "a stream again", func() bool { return u.Listening() == 1 })
			u.Broadcast(note(wire.NoteTools))
			equal(t, "heard", next(t, s), "tools/list_changed")
		})
	}
}

func TestAnUpstreamThatIsDownIsAssumedToTell(t *testing.T) {
	u := mcptest.NewModern()
	u.Capabilities = wire.Raw(tellsAll)
	u.Fail("", 2, mcptest.Respond(http.StatusBadGateway, "text/plain", "down"))
	h := connect(t, Options{URL: u.Start(t), Retry: time.Millisecond})
	s, err := h.Listen(t.Context(), ListenRequest{
		Want: wire.Filter{Tools: true, Prompts: true}, Assume: wire.Filter{Tools: true}, Principal: "t/ann",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check(t, "honoured", string(s.Honoured().Object().Bytes()), `{"toolsListChanged":true}`)
	equal(t, "told to look once it is back", next(t, s), "tools/list_changed")
}

func TestListeningToALegacySession(t *testing.T) {
	var mu sync.Mutex
	var subscribed []string
	u := mcptest.NewLegacy(mcptest.Tool{Name: "greet", Run: func(*mcptest.Call) (wire.Raw, *wire.Error) { return mcptest.Text("hi"), nil }})
	u.Capabilities = wire.Raw(tellsAll)
	for sign, method := range map[string]string{"+": "resources/subscribe", "-": "resources/unsubscribe"} {
		u.Handle(method, func(params wire.Object) (wire.Raw, *wire.Error) {
			mu.Lock()
			defer mu.Unlock()
			subscribed = append(subscribed, sign+wire.UpdatedURI(params.Bytes()))
			if wire.UpdatedURI(params.Bytes()) == "file:///none" {
				return nil, wire.Errorf(wire.CodeLegacyNotFound, "Resource not found")
			}
			return wire.Raw(`{}`), nil
		})
	}
	seen := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(subscribed, " ")
	}
	h := connect(t, Options{URL: u.Start(t)})

	a := subscribe(t, h, wire.Filter{Prompts: true, URIs: []string{"file:///a", "file:///none"}})
	check(t, "honoured", string(a.Honoured().Object().Bytes()), `{"promptsListChanged":true,"resourceSubscriptions":["file:///a"]}`)
	b := subscribe(t, h, wire.Filter{Resources: true, URIs: []string{"file:///a", "file:///b"}})
	check(t, "subscribed", seen(), "+file:///a +file:///none +file:///b")
	if _, err := h.Call(t.Context(), toolCall(1, "greet", `{}`), &recorder{}); err != nil {
		t.Fatal(err)
	}

	eventually(t, "a GET stream", func() bool { return u.Listening() == 1 })
	u.Broadcast(updated("file:///b"))
	equal(t, "b hears", next(t, b), "resources/updated file:///b")
	u.Broadcast(note(wire.NotePrompts))
	equal(t, "a hears", next(t, a), "prompts/list_changed")

	b.Close()
	eventually(t, "b's resource is unsubscribed", func() bool { return strings.HasSuffix(seen(), "-file:///b") })
	a.Close()
	eventually(t, "a's too, and the stream is closed", func() bool { return strings.HasSuffix(seen(), "-file:///a") && u.Listening() == 0 })
}

func TestRequestsOfNoCallAreRefused(t *testing.T) {
	u := mcptest.NewLegacy()
	u.Capabilities = wire.Raw(tellsAll)
	h := connect(t, Options{URL: u.Start(t)})
	subscribe(t, h, wire.Filter{Tools: true})
	eventually(t, "a GET stream", func() bool { return u.Listening() == 1 })
	u.Broadcast(wire.Message{ID: wire.Raw(`7`), Method: "roots/list"})
	u.Broadcast(wire.Message{ID: wire.Raw(`"p"`), Method: "ping"})
	answers := func() (all []string) {
		for _, r := range u.Requests("") {
			if m := r.Message; m.ID != nil && m.IsResponse() {
				all = append(all, string(m.ID)+string(m.Result)+fmt.Sprint(m.Error != nil && wire.ParseError(m.Error).Code == wire.CodeInvalidRequest))
			}
		}
		return all
	}
	eventually(t, "both are answered", func() bool { return len(answers()) == 2 })
	equal(t, "answers", answers(), `7true`, `"p"{}false`)
}

func TestWhoHasNoStreamIsDeaf(t *testing.T) {
	u := mcptest.NewLegacy()
	u.Capabilities = wire.Raw(tellsAll)
	info, err := connect(t, Options{URL: u.Start(t)}).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check(t, "one with a stream is deaf", info.Deaf, false)

	scripted := serve(t, func(w http.ResponseWriter, r received) bool {
		switch {
		case r.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "s-1")
			replyJSON(w, 200, r.ID, `"result":{"protocolVersion":"2025-06-18","capabilities":`+tellsAll+`,"serverInfo":{"name":"x"}}`)
			return true
		case r.http == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return true
		}
		return false
	})
	h := connect(t, Options{URL: scripted.URL})
	if info, err = h.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, "one without is deaf", info.Deaf, true)
	s := subscribe(t, h, wire.Filter{Tools: true})
	check(t, "honoured", s.Honoured().IsEmpty(), true)
}

func TestALostSessionIsListenedToAnew(t *testing.T) {
	u := mcptest.NewLegacy()
	u.Capabilities = wire.Raw(tellsAll)
	h := connect(t, Options{URL: u.Start(t), Retry: time.Millisecond})
	s := subscribe(t, h, wire.Filter{Tools: true})
	eventually(t, "a GET stream", func() bool { return u.Listening() == 1 })
	u.CutListening()
	u.LoseSessions()
	equal(t, "told to look again", next(t, s), "tools/list_changed")
	check(t, "sessions opened", len(u.Requests("initialize")) >= 2, true)
}

func TestASlowListenerLosesOnlyWhatDoesNotFit(t *testing.T) {
	as := &audiences{metrics: newMetrics(nil, nil)}
	a := &audience{audiences: as, listeners: map[*Subscription]struct{}{}}
	s := &Subscription{audience: a, want: wire.Filter{Tools: true, URIs: []string{"x:/"}}, changed: make(chan struct{}, 1)}
	s.settle(s.want)
	a.listeners[s] = struct{}{}
	for i := range 2 * maxWaiting {
		m := updated(fmt.Sprintf("x:/%d", i%(maxWaiting+10)))
		a.hear(m.Method, m.Params)
	}
	check(t, "kept", len(s.Take()), maxWaiting)
	a.hear(wire.NoteTools, nil)
	a.hear(wire.NoteTools, wire.Raw(`{"_meta":{"k":1}}`))
	taken := s.Take()
	check(t, "kept once", len(taken), 1)
	check(t, "the last one", string(taken[0].Params), `{"_meta":{"k":1}}`)

	s.room = 110
	large := `"_meta":{"k":"` + strings.Repeat("x", 60) + `"}`
	for _, uri := range []string{"x:/1", "x:/2", "x:/1"} { // the last takes the place of the first
		a.hear(wire.NoteResource, wire.Raw(`{"uri":"`+uri+`",`+large+`}`))
	}
	a.hear(wire.NoteResource, wire.Raw(`{"uri":"x:/`+strings.Repeat("y", 100)+`"}`))
	a.hear(wire.NoteTools, wire.Raw(`{`+large+`}`))
	var got []string
	for _, n := range s.Take() {
		got = append(got, n.Method+string(n.Params))
	}
	check(t, "within the room", strings.Join(got, " "),
		wire.NoteResource+`{"uri":"x:/2"} `+wire.NoteResource+`{"uri":"x:/1",`+large+`} `+wire.NoteTools)
}

func TestClosingEndsListening(t *testing.T) {
	u := mcptest.NewLegacy()
	u.Capabilities = wire.Raw(tellsAll)
	h, err := NewHTTP(Options{Name: "test", URL: u.Start(t)})
	if err != nil {
		t.Fatal(err)
	}
	s := subscribe(t, h, wire.Filter{Tools: true})
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream and the session are gone", func() bool { return u.Listening() == 0 && u.Sessions() == 0 })
	if _, err := h.Listen(t.Context(), ListenRequest{Want: wire.Filter{Tools: true}}); !isKind(err, Closed) {
		t.Errorf("after Close: %v", err)
	}
	s.Close()
}

func TestWhoDoesNotKnowListenIsDeaf(t *testing.T) {
	u := mcptest.NewModern()
	u.Handle("subscriptions/listen", func(wire.Object) (wire.Raw, *wire.Error) {
		return nil, wire.Errorf(wire.CodeMethodNotFound, "Method not found")
	})
	h := connect(t, Options{URL: u.Start(t)})
	s := subscribe(t, h, wire.Filter{Tools: true})
	check(t, "honoured", s.Honoured().IsEmpty(), true)
	again := subscribe(t, h, wire.Filter{Prompts: true})
	check(t, "honoured, as is known by now", again.Honoured().IsEmpty(), true)
	check(t, "asked", len(u.Requests("subscriptions/listen")), 1)
}
