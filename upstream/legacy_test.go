package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskgate/wire"
)

func connectLegacy(t *testing.T, s *scripted, o Options) *Connector {
	t.Helper()
	o.URL, o.Era = s.URL, Legacy
	return connect(t, o)
}

// answering responds to tools/call and leaves the rest to the default.
func answering(f func(w http.ResponseWriter, r received)) func(http.ResponseWriter, received) bool {
	return func(w http.ResponseWriter, r received) bool {
		if r.Method != "tools/call" {
			return false
		}
		f(w, r)
		return true
	}
}

func fast(w http.ResponseWriter, r received) { replyJSON(w, 200, r.ID, resultOK) }

func TestLegacyHandshake(t *testing.T) {
	s := serve(t, answering(fast))
	h, err := NewHTTP(Options{Name: "test", URL: s.URL, Era: Legacy, Version: "1.2", Header: http.Header{"X-Team": {"a"}}})
	if err != nil {
		t.Fatal(err)
	}
	r := toolCall(5, "x", `{}`)
	r.Header = http.Header{"Authorization": {"Bearer t"}}
	reply, err := h.Call(t.Context(), r, &recorder{})
	if err != nil {
		t.Fatal(err)
	}
	check(t, "result", string(reply.Result), `{"content":[]}`)
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "messages", s.methods(), "initialize", "notifications/initialized", "tools/call", "DELETE")

	init := s.got[0]
	check(t, "initialize", string(init.Params), `{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"elicitation":{"form":{}},"roots":{},"sampling":{}},"clientInfo":{"name":"taskgate","version":"1.2"}}`)
	check(t, "version header of initialize", init.header.Get("Mcp-Protocol-Version"), "")
	for i, got := range s.got {
		check(t, "static header", got.header.Get("X-Team"), "a")
		check(t, "caller's header", got.header.Get("Authorization"), "Bearer t")
		if i > 0 {
			check(t, "session header", got.header.Get("Mcp-Session-Id"), "s-1")
			check(t, "version header", got.header.Get("Mcp-Protocol-Version"), "2025-06-18")
		}
	}
	check(t, "our id", string(s.got[2].ID), "5")
	check(t, "accept", s.got[2].header.Get("Accept"), "application/json, text/event-stream")
}

func TestStatelessLegacyServer(t *testing.T) {
	s := serve(t, answering(fast))
	s.session = ""
	h := connectLegacy(t, s, Options{})
	for id := range uint64(2) {
		if _, err := h.Call(t.Context(), toolCall(id+1, "x", `{}`), &recorder{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "messages", s.methods(), "initialize", "notifications/initialized", "tools/call", "tools/call")
	_, has := s.got[3].header["Mcp-Session-Id"]
	check(t, "session header", has, false)
}

func TestLegacyVersionsOfTheServer(t *testing.T) {
	for version, ok := range map[string]bool{"2025-03-26": true, "2025-11-25": true, "2024-11-05": true, "2026-07-28": false, "": false} {
		s := serve(t, func(w http.ResponseWriter, r received) bool {
			if r.Method == "initialize" {
				replyJSON(w, 200, r.ID, fmt.Sprintf(`"result":{"protocolVersion":%q,"capabilities":{}}`, version))
				return true
			}
			return answering(fast)(w, r)
		})
		h := connectLegacy(t, s, Options{})
		_, err := h.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{})
		if ok != (err == nil) || !ok && !isKind(err, Incompatible) {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

func TestProgressComesUnderOurTokenOnly(t *testing.T) {
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		stream(w,
			event(`{'jsonrpc':'2.0','method':'notifications/progress','params':{'progressToken':5,'progress':0.50,'total':1,'message':'half','x':1}}`),
			event(`{'jsonrpc':'2.0','method':'notifications/progress','params':{'progressToken':'5','progress':2}}`),
			event(`{'jsonrpc':'2.0','method':'notifications/progress','params':{'progressToken':6,'progress':2}}`),
			event(`{'jsonrpc':'2.0','method':'notifications/progress'}`),
			event(`{'jsonrpc':'2.0','method':'notifications/message','params':{'level':'info','data':1}}`),
			event(`{'jsonrpc':'2.0','id':%s,'result':{}}`, r.ID))
	}))
	h := connectLegacy(t, s, Options{})
	rec := &recorder{}
	if _, err := h.Call(t.Context(), toolCall(5, "x", `{}`), rec); err != nil {
		t.Fatal(err)
	}
	progress, notes, _ := rec.seen()
	equal(t, "progress", progress, `{"progress":0.50,"total":1,"message":"half","x":1}`)
	equal(t, "notes", notes, `notifications/message {"level":"info","data":1}`)
}

// withAnswers sends the questions on the call's stream and returns the
// answers, by id, as the result, once there are n.
func withAnswers(n int, questions ...string) func(http.ResponseWriter, received) bool {
	answers := make(chan wire.Message, 100)
	return func(w http.ResponseWriter, r received) bool {
		if r.http == http.MethodPost && r.IsResponse() {
			answers <- r.Message
			w.WriteHeader(http.StatusAccepted)
			return true
		}
		if r.Method != "tools/call" {
			return false
		}
		for _, q := range questions {
			stream(w, event("%s", q))
		}
		var got wire.Object
		for range n {
			m := <-answers
			value := m.Result
			if m.Error != nil {
				value = m.Error
			}
			got = got.With(string(m.ID), value)
		}
		slices.SortFunc(got, func(a, b wire.Member) int { return strings.Compare(a.Name, b.Name) })
		stream(w, event(`{'jsonrpc':'2.0','id':%s,'result':%s}`, r.ID, got.Bytes()))
		return true
	}
}

func TestQuestionsAreAnsweredUnderTheServersOwnIDs(t *testing.T) {
	s := serve(t, withAnswers(4,
		`{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{"message":"?"}}`,
		`{"jsonrpc":"2.0","id":"a\u002d1","method":"sampling/createMessage","params":{}}`,
		`{"jsonrpc":"2.0","id":12345678901234567890,"method":"roots/list"}`,
		`{"jsonrpc":"2.0","id":1.50,"method":"ping"}`))
	h := connectLegacy(t, s, Options{})
	all := make(chan struct{})
	var asked atomic.Int32
	rec := &recorder{ask: func(ctx context.Context, method string, _ wire.Raw) (wire.Raw, *wire.Error) {
		if asked.Add(1) == 3 {
			close(all)
		}
		<-all // they are asked side by side, or this waits forever
		if method == wire.MethodRoots {
			return nil, wire.Errorf(-1, "no")
		}
		return wire.Raw(`{"is":` + string(wire.Quote(method)) + `}`), nil
	}}
	reply, err := h.Call(t.Context(), toolCall(5, "x", `{}`), rec)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "answers", string(reply.Result), `{"\"a\\u002d1\"":{"is":"sampling/createMessage"},"0":{"is":"elicitation/create"},`+
		`"1.50":{},"12345678901234567890":{"code":-1,"message":"no"}}`)
	for _, answer := range s.all(func(r received) bool { return r.http == "POST" && r.IsResponse() }) {
		check(t, "session of an answer", answer.header.Get("Mcp-Session-Id"), "s-1")
	}
}

func TestQuestionsNobodyDeclaredAreRefusedUnasked(t *testing.T) {
	s := serve(t, withAnswers(4,
		`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"url"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{}}`,
		`{"jsonrpc":"2.0","id":3,"method":"acme/what"}`,
		`{"jsonrpc":"2.0","id":4,"method":"elicitation/create","params":{}}`))
	h := connectLegacy(t, s, Options{})
	r := toolCall(5, "x", `{}`)
	r.Capabilities = wire.ParseCapabilities(wire.Raw(`{"elicitation":{}}`))
	rec := &recorder{}
	reply, err := h.Call(t.Context(), r, rec)
	if err != nil {
		t.Fatal(err)
	}
	answers, _ := wire.ParseObject(reply.Result)
	for id, code := range map[string]int{"1": wire.CodeInvalidParams, "2": wire.CodeMethodNotFound, "3": wire.CodeMethodNotFound} {
		check(t, "code of answer "+id, wire.ParseError(answers.Get(id)).Code, code)
	}
	if got := string(reply.Undeclared); got != `{"elicitation":{"url":{}}}` && got != `{"sampling":{}}` {
		t.Errorf("undeclared: %s", got)
	}
	_, _, asked := rec.seen()
	equal(t, "asked", asked, "elicitation/create")
}

func TestMoreQuestionsThanTheLimit(t *testing.T) {
	const n = maxQuestions + 3
	var questions []string
	for i := range n {
		questions = append(questions, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i))
	}
	refused := make(chan struct{})
	var refusals atomic.Int32
	respond := withAnswers(n, questions...)
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		if r.http == http.MethodPost && r.IsResponse() && r.Error != nil && refusals.Add(1) == 3 {
			close(refused)
		}
		return respond(w, r)
	})
	h := connectLegacy(t, s, Options{})
	rec := &recorder{ask: func(context.Context, string, wire.Raw) (wire.Raw, *wire.Error) {
		<-refused
		return wire.Raw(`{"roots":[]}`), nil
	}}
	if _, err := h.Call(t.Context(), toolCall(5, "x", `{}`), rec); err != nil {
		t.Fatal(err)
	}
	_, _, asked := rec.seen()
	check(t, "asked", len(asked), maxQuestions)
	check(t, "refused", int(refusals.Load()), 3)
}

func TestWithdrawnQuestion(t *testing.T) {
	asking, withdrawn := make(chan struct{}), make(chan struct{})
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		stream(w, event(`{'jsonrpc':'2.0','id':9,'method':'elicitation/create','params':{}}`))
		<-asking
		stream(w, event(`{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':9}}`))
		<-withdrawn
		stream(w, event(`{'jsonrpc':'2.0','id':%s,'result':{}}`, r.ID))
	}))
	h := connectLegacy(t, s, Options{})
	rec := &recorder{ask: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, *wire.Error) {
		close(asking)
		<-ctx.Done()
		close(withdrawn)
		return wire.Raw(`{"late":1}`), nil
	}}
	if _, err := h.Call(t.Context(), toolCall(5, "x", `{}`), rec); err != nil {
		t.Fatal(err)
	}
	_, notes, _ := rec.seen()
	equal(t, "notes", notes)
	check(t, "answers sent", len(s.all(func(r received) bool { return r.http == "POST" && r.IsResponse() })), 0)
}

func TestAnswerIsSentAgainWhenItDoesNotArrive(t *testing.T) {
	var tries atomic.Int32
	respond := withAnswers(1, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		if r.http == http.MethodPost && r.IsResponse() && tries.Add(1) == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		return respond(w, r)
	})
	h := connectLegacy(t, s, Options{})
	reply, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
	if err != nil {
		t.Fatal(err)
	}
	check(t, "result", string(reply.Result), `{"1":{"action":"decline"}}`)
	check(t, "tries", tries.Load(), 2)
}

// TestAnswerThatNeverArrivesEndsTheCall: however the answer is refused, it is
// not the call that was, so the call is not sent again.
func TestAnswerThatNeverArrivesEndsTheCall(t *testing.T) {
	for text, status := range map[string]int{"bad gateway": 502, "session not found": 404, "No valid session ID": 400} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r received) bool {
				if r.http == http.MethodPost && r.IsResponse() {
					http.Error(w, text, status)
					return true
				}
				return answering(func(w http.ResponseWriter, r received) {
					stream(w, event(`{'jsonrpc':'2.0','id':9,'method':'roots/list'}`))
					waitForCancel(r)
				})(w, r)
			})
			h := connect(t, Options{URL: s.URL})
			_, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
			if !isKind(err, Broken) || !errors.Is(err, ErrOutcomeUnknown) || !strings.Contains(err.Error(), "roots/list") {
				t.Errorf("error: %v", err)
			}
			equal(t, "messages", s.methods(), "server/discover", "initialize", "notifications/initialized", "tools/call",
				"response", "response", "response", "notifications/cancelled")
		})
	}
}

// TestAnswerOnItsWayIsNotCutOff: a server may go on with the call, and end it,
// before it acknowledges the answer.
func TestAnswerOnItsWayIsNotCutOff(t *testing.T) {
	answered, acknowledge, cut := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		if r.http == http.MethodPost && r.IsResponse() {
			close(answered)
			select {
			case <-r.gone:
				cut <- true
			case <-acknowledge:
				cut <- false
			}
			w.WriteHeader(http.StatusAccepted)
			return true
		}
		return answering(func(w http.ResponseWriter, r received) {
			stream(w, event(`{'jsonrpc':'2.0','id':9,'method':'roots/list'}`))
			<-answered
			stream(w, event(`{'jsonrpc':'2.0','id':%s,'result':{}}`, r.ID))
		})(w, r)
	})
	h := connectLegacy(t, s, Options{})
	if _, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{}); err != nil {
		t.Fatal(err)
	}
	select { // a hang-up would be seen at once
	case <-cut:
		t.Error("the answer was cut off")
	case <-time.After(50 * time.Millisecond):
		close(acknowledge)
		check(t, "cut off", <-cut, false)
	}
}

func TestCancelIsToldBeforeTheStreamCloses(t *testing.T) {
	started, closed := make(chan struct{}), make(chan string, 2)
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		switch r.Method {
		case "tools/call":
			stream(w, ": hello\n\n")
			close(started)
			waitForCancel(r)
			closed <- "stream"
		case "notifications/cancelled":
			closed <- "notification"
			w.WriteHeader(http.StatusAccepted)
		default:
			return false
		}
		return true
	})
	h := connectLegacy(t, s, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	_, err := h.Call(ctx, toolCall(5, "x", `{}`), &recorder{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	check(t, "first", <-closed, "notification")
	check(t, "second", <-closed, "stream")
	told := s.all(method("notifications/cancelled"))
	check(t, "told", string(told[0].Params), `{"requestId":5,"reason":"nobody waits for the response any more"}`)
	check(t, "session", told[0].header.Get("Mcp-Session-Id"), "s-1")
}

func TestCancelBeforeAnyHeadersCameBack(t *testing.T) {
	started := make(chan struct{})
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		close(started)
		waitForCancel(r)
	}))
	h := connectLegacy(t, s, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-started
		cancel(errors.New("some cause"))
	}()
	_, err := h.Call(ctx, toolCall(5, "x", `{}`), &recorder{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	check(t, "told", len(s.all(method("notifications/cancelled"))), 1)
}

func TestCancelDoesNotWaitForASilentUpstream(t *testing.T) {
	started := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		switch r.Method {
		case "tools/call":
			close(started)
			waitForCancel(r)
		case "notifications/cancelled":
			waitForCancel(r)
		default:
			return false
		}
		return true
	})
	h := connectLegacy(t, s, Options{CancelTimeout: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	begin := time.Now()
	_, err := h.Call(ctx, toolCall(5, "x", `{}`), &recorder{})
	if !errors.Is(err, context.Canceled) || time.Since(begin) > deadline/2 {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
}

func TestNothingIsCancelledThatWasNotSent(t *testing.T) {
	reached := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		if r.Method == "initialize" {
			close(reached)
			waitForCancel(r)
			return true
		}
		return false
	})
	h := connectLegacy(t, s, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-reached
		cancel()
	}()
	_, err := h.Call(ctx, toolCall(5, "x", `{}`), &recorder{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "messages", s.methods(), "initialize")
}
