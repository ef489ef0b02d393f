package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// keeper is a recorder that keeps tokens.
type keeper struct {
	recorder
	answers chan string // to questions, one after the other; nil: they are declined

	kept  sync.Mutex
	token wire.Raw
	ids   []string // of questions, as "id method"
}

func (k *keeper) Keep(token wire.Raw) {
	k.kept.Lock()
	defer k.kept.Unlock()
	k.token = token
}

func (k *keeper) Ask(ctx context.Context, q Question) (wire.Raw, *wire.Error) {
	k.kept.Lock()
	k.ids = append(k.ids, q.ID+" "+q.Method)
	k.kept.Unlock()
	select {
	case text := <-k.answers:
		return mcptest.Accept(fmt.Sprintf(`{"name":%q}`, text)), nil
	case <-ctx.Done():
		return nil, wire.Errorf(wire.CodeInternal, "gone")
	}
}

func (k *keeper) got() (t token) {
	k.kept.Lock()
	defer k.kept.Unlock()
	t, _ = parseToken(k.token)
	return t
}

func (k *keeper) questions() string {
	k.kept.Lock()
	defer k.kept.Unlock()
	return strings.Join(k.ids, ", ")
}

func newKeeper() *keeper { return &keeper{answers: make(chan string, 1)} }

// pending is a call on its way.
type pending struct {
	t     *testing.T
	leave context.CancelCauseFunc
	done  chan struct{}
	reply Reply
	err   error
}

func begin(t *testing.T, call func(ctx context.Context) (Reply, error)) *pending {
	ctx, cancel := context.WithCancelCause(context.Background())
	p := &pending{t: t, leave: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.reply, p.err = call(ctx)
	}()
	t.Cleanup(func() {
		cancel(nil)
		<-p.done
	})
	return p
}

func (p *pending) wait() (Reply, error) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(deadline):
		p.t.Fatalf("not over within %v", deadline)
	}
	return p.reply, p.err
}

func (p *pending) text() string {
	p.t.Helper()
	reply, err := p.wait()
	if err != nil {
		p.t.Fatal(err)
	}
	return text(p.t, reply)
}

// leaves ends the call here as a draining gateway does.
func (p *pending) leaves() {
	p.t.Helper()
	p.leave(fmt.Errorf("shut down: %w", ErrLeave))
	if _, err := p.wait(); !errors.Is(err, context.Canceled) {
		p.t.Fatalf("a call that was left: %v", err)
	}
}

// asker is a server that numbers its events, with a tool that asks for a name
// and one that works until the test lets it go on.
type asker struct {
	*mcptest.Upstream
	url  string
	work chan struct{}
}

func newAsker(t *testing.T) *asker {
	s := &asker{work: make(chan struct{})}
	s.Upstream = mcptest.NewLegacy(
		mcptest.Tool{Name: "ask", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
			answers, err := c.Ask(mcptest.Elicit("name", "Your name?"))
			if err != nil {
				return nil, err
			}
			return mcptest.Text(string(answers["name"])), nil
		}},
		mcptest.Tool{Name: "work", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
			c.Progress(1, 2, "half")
			select {
			case <-s.work:
			case <-c.Cancelled():
				return mcptest.Text("cancelled"), nil
			}
			c.Progress(2, 2, "all")
			return mcptest.Text("done"), nil
		}})
	s.Resumable = true
	s.url = s.Start(t)
	return s
}

func (s *asker) connect(t *testing.T) *Connector {
	return connect(t, Options{URL: s.url, Retry: 20 * time.Millisecond})
}

func (s *asker) begin(t *testing.T, h *Connector, tool string, k *keeper) *pending {
	return begin(t, func(ctx context.Context) (Reply, error) {
		return h.Call(ctx, toolCall(7, tool, `{"key":"k"}`), k)
	})
}

// resume goes on with the call, as another process would.
func (s *asker) resume(t *testing.T, h *Connector, tool string, from, to *keeper) *pending {
	return begin(t, func(ctx context.Context) (Reply, error) {
		return h.Resume(ctx, from.got().bytes(), toolCall(99, tool, `{"key":"k"}`), to)
	})
}

// TestALeftQuestionStaysWithItsCall: whatever still notes where the call is, once it
// has been left, notes its open question too. Who goes on with it asks it again, and
// nobody takes it for another's (contract 9).
func TestALeftQuestionStaysWithItsCall(t *testing.T) {
	for name, c := range map[string]struct {
		cause error
		open  int
	}{"left to others": {ErrLeave, 1}, "given up": {context.Canceled, 0}} {
		t.Run(name, func(t *testing.T) {
			var running sync.WaitGroup
			k := newKeeper()
			conversation := &conversation{legacy: &legacy{running: &running}, session: &session{}, handler: k,
				questions: map[string]context.CancelFunc{}, place: token{Event: "e-1"},
				request: Request{Capabilities: wire.ParseCapabilities(wire.Raw(`{"elicitation":{}}`))}}
			ctx, leave := context.WithCancelCause(t.Context())
			conversation.begin(ctx, wire.Message{ID: wire.Raw("1"), Method: wire.MethodElicit, Params: wire.Raw(`{"message":"Your name?"}`)})
			eventually(t, "the question", func() bool { return k.questions() != "" })
			leave(c.cause)
			running.Wait()
			conversation.keep(nil)
			check(t, "open questions", len(k.got().Open), c.open)
		})
	}
}

const answered = `{"action":"accept","content":{"name":"Ann"}}`

func TestABrokenStreamIsTakenUpAgain(t *testing.T) {
	s := newAsker(t)
	k := newKeeper()
	call := s.begin(t, s.connect(t), "work", k)
	eventually(t, "progress", func() bool { p, _, _ := k.seen(); return len(p) == 1 })
	for range 3 {
		s.CutStreams()
	}
	close(s.work)
	check(t, "result", call.text(), "done")
	progress, _, _ := k.seen()
	equal(t, "progress", progress, `{"progress":1,"total":2,"message":"half"}`, `{"progress":2,"total":2,"message":"all"}`)
	check(t, "runs", len(s.Calls("work", "k")), 1)
}

func TestAQuestionSurvivesABrokenStream(t *testing.T) {
	s := newAsker(t)
	k := newKeeper()
	call := s.begin(t, s.connect(t), "ask", k)
	eventually(t, "the question", func() bool { return k.questions() != "" })
	s.CutStreams()
	k.answers <- "Ann"
	check(t, "result", call.text(), answered)
	check(t, "questions", k.questions(), "0 elicitation/create")
}

func TestACallIsLeftAndResumed(t *testing.T) {
	s := newAsker(t)
	h, k := s.connect(t), newKeeper()
	call := s.begin(t, h, "work", k)
	eventually(t, "progress", func() bool { p, _, _ := k.seen(); return len(p) == 1 })
	call.leaves()
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, "sessions", s.Sessions(), 1) // it was not ended
	check(t, "cancelled", len(s.Requests("notifications/cancelled")), 0)

	later := newKeeper()
	resumed := s.resume(t, s.connect(t), "work", k, later)
	close(s.work)
	check(t, "result", resumed.text(), "done")
	progress, _, _ := later.seen()
	equal(t, "progress", progress, `{"progress":2,"total":2,"message":"all"}`)
	check(t, "runs", len(s.Calls("work", "k")), 1)
}

func TestAQuestionThatWasOutIsAskedAgain(t *testing.T) {
	s := newAsker(t)
	k := newKeeper()
	call := s.begin(t, s.connect(t), "ask", k)
	eventually(t, "the token knows of the question", func() bool { return len(k.got().Open) == 1 })
	call.leaves()

	later := newKeeper()
	resumed := s.resume(t, s.connect(t), "ask", k, later)
	later.answers <- "Ann"
	check(t, "result", resumed.text(), answered)
	check(t, "question", later.questions(), "0 ") // by its id; more is not known here
	check(t, "runs", len(s.Calls("ask", "k")), 1)
}

// The token is from before the question, as after a crash at a bad moment.
func TestAQuestionThatTheTokenDoesNotKnow(t *testing.T) {
	s := newAsker(t)
	k := newKeeper()
	call := s.begin(t, s.connect(t), "ask", k)
	eventually(t, "the question", func() bool { return len(k.got().Open) == 1 })
	call.leaves()
	old := token{Session: k.got().Session, Version: k.got().Version, Request: 7}
	old.Event = strings.Split(k.got().Event, "/")[0] + "/0"
	k.Keep(old.bytes())

	later := newKeeper()
	resumed := s.resume(t, s.connect(t), "ask", k, later)
	later.answers <- "Ann"
	check(t, "result", resumed.text(), answered)
	check(t, "question", later.questions(), "0 elicitation/create")
}

func TestAResumedCallIsCancelled(t *testing.T) {
	s := newAsker(t)
	k := newKeeper()
	call := s.begin(t, s.connect(t), "work", k)
	eventually(t, "progress", func() bool { p, _, _ := k.seen(); return len(p) == 1 })
	call.leaves()
	resumed := s.resume(t, s.connect(t), "work", k, newKeeper())
	eventually(t, "it listens", func() bool { return gets(s.Upstream) > 0 })
	resumed.leave(errors.New("the owner wants it"))
	if _, err := resumed.wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	sent := s.Requests("notifications/cancelled")
	if len(sent) != 1 || !strings.Contains(string(sent[0].Message.Params), `"requestId":7`) {
		t.Errorf("cancelled: %v", sent)
	}
	check(t, "the tool was told", s.Calls("work", "k")[0].Cancelled, true)
}

// A context that is over before it begins still tells the upstream.
func TestResumingOnlyToCancel(t *testing.T) {
	s := newAsker(t)
	k := newKeeper()
	call := s.begin(t, s.connect(t), "work", k)
	eventually(t, "progress", func() bool { p, _, _ := k.seen(); return len(p) == 1 })
	call.leaves()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.connect(t).Resume(ctx, k.got().bytes(), toolCall(99, "work", `{}`), newKeeper()); !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	eventually(t, "the tool is told", func() bool { return s.Calls("work", "k")[0].Cancelled })
}

func gets(u *mcptest.Upstream) (n int) {
	for _, r := range u.Requests("") {
		if r.Method == http.MethodGet {
			n++
		}
	}
	return n
}

func TestACallOfALostSessionCannotBeResumed(t *testing.T) {
	for _, form := range []mcptest.LossForm{mcptest.Loss404JSON, mcptest.Loss404Text, mcptest.Loss400} {
		s := newAsker(t)
		s.Loss = form
		k := newKeeper()
		call := s.begin(t, s.connect(t), "work", k)
		eventually(t, "progress", func() bool { p, _, _ := k.seen(); return len(p) == 1 })
		call.leaves()
		s.LoseSessions()
		if _, err := s.resume(t, s.connect(t), "work", k, newKeeper()).wait(); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("error: %v", err)
		}
	}
}

func TestAnUpstreamOutOfReachIsTriedAgain(t *testing.T) {
	s := newAsker(t)
	k := newKeeper()
	call := s.begin(t, s.connect(t), "work", k)
	eventually(t, "progress", func() bool { p, _, _ := k.seen(); return len(p) == 1 })
	call.leaves()
	close(s.work)
	s.Fail("", 1, mcptest.Drop)
	s.Fail("", 1, mcptest.Respond(http.StatusBadGateway, "text/plain", "down"))
	s.Fail("", 1, mcptest.Respond(http.StatusConflict, "text/plain", "another stream is open"))
	check(t, "result", s.resume(t, s.connect(t), "work", k, newKeeper()).text(), "done")

	h := connect(t, Options{URL: s.url, Retry: time.Millisecond})
	s.Fail("", 1000, mcptest.Respond(http.StatusBadGateway, "text/plain", "down"))
	if _, err := s.resume(t, h, "work", k, newKeeper()).wait(); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("error: %v", err)
	}
}

func TestACallThatCannotBeFoundAgainIsCancelledWhenItIsLeft(t *testing.T) {
	s := newAsker(t)
	s.Resumable = false
	h, k := s.connect(t), newKeeper()
	call := s.begin(t, h, "work", k)
	eventually(t, "progress", func() bool { p, _, _ := k.seen(); return len(p) == 1 })
	call.leaves()
	check(t, "token", string(k.token), "")
	check(t, "cancelled", len(s.Requests("notifications/cancelled")), 1)
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, "sessions", s.Sessions(), 0)
}

func TestTokensThatAreNone(t *testing.T) {
	h := newAsker(t).connect(t)
	for _, raw := range []string{``, `[]`, `{}`, `{"session":"s"}`, `{"modern":true,"event":"1"}`} {
		if _, err := h.Resume(t.Context(), wire.Raw(raw), toolCall(1, "work", `{}`), newKeeper()); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestLongIDsAreNotKept(t *testing.T) {
	k := newKeeper()
	keepAt(k, token{Event: strings.Repeat("e", 100)})
	keepAt(k, token{Event: strings.Repeat("e", maxToken)})
	keepAt(k, token{Session: "no event, no task"})
	check(t, "event", len(k.got().Event), 100)
}

func TestTasksOfUpstreamsAreResumed(t *testing.T) {
	run := func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		answers, err := c.Ask(mcptest.Elicit("name", "Your name?"))
		if err != nil {
			return nil, err
		}
		return mcptest.Text(string(answers["name"])), nil
	}
	eras(t, run, func(t *testing.T, u *mcptest.Upstream, h *Connector) {
		k := newKeeper()
		call := begin(t, func(ctx context.Context) (Reply, error) {
			return h.Call(ctx, toolCall(7, "research", `{"key":"k"}`), k)
		})
		eventually(t, "the question", func() bool { return k.questions() != "" })
		if k.got().Modern == false {
			eventually(t, "the token knows of it", func() bool { return len(k.got().Open) == 1 })
		}
		call.leaves()
		check(t, "cancelled", len(u.Requests("tasks/cancel")), 0)

		later := newKeeper()
		resumed := begin(t, func(ctx context.Context) (Reply, error) {
			return h.Resume(ctx, k.got().bytes(), toolCall(99, "research", `{"key":"k"}`), later)
		})
		later.answers <- "Ann"
		check(t, "result", resumed.text(), answered)
		check(t, "the same question", strings.Fields(later.questions())[0], strings.Fields(k.questions())[0])
		check(t, "runs", len(u.Calls("research", "k")), 1)
	})
}

// replaying is a server that answers GET with Last-Event-ID by the events of
// one turn after the other, and then with silence.
func replaying(t *testing.T, turns ...string) *scripted {
	var mu sync.Mutex
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		if r.http != http.MethodGet {
			return false
		}
		mu.Lock()
		turn := ""
		if len(turns) > 0 {
			turn, turns = turns[0], turns[1:]
		}
		mu.Unlock()
		stream(w, turn)
		waitForCancel(r)
		return true
	})
	return s
}

func numbered(id, format string, args ...any) string {
	return "id: " + id + "\n" + event(format, args...)
}

const theResult = `{'jsonrpc':'2.0','id':7,'result':{'content':[{'type':'text','text':'done'}]}}`

func resumeAt(t *testing.T, s *scripted, tok token, k *keeper) *pending {
	h := connect(t, Options{URL: s.URL, Retry: 100 * time.Millisecond})
	tok.Session, tok.Version, tok.Request, tok.Event = "s-1", "2025-11-25", 7, "e-1"
	return begin(t, func(ctx context.Context) (Reply, error) {
		return h.Resume(ctx, tok.bytes(), toolCall(99, "x", `{}`), k)
	})
}

func TestAServerThatReplaysButNeverGoesLive(t *testing.T) {
	s := replaying(t,
		numbered("e-2", `{'jsonrpc':'2.0','method':'notifications/progress','params':{'progressToken':7,'progress':1}}`),
		"", "id: e-3\ndata: \n\n", "", numbered("e-4", theResult))
	k := newKeeper()
	check(t, "result", resumeAt(t, s, token{}, k).text(), "done")
	progress, _, _ := k.seen()
	equal(t, "progress", progress, `{"progress":1}`)
	var asked []string
	for _, r := range s.all(func(r received) bool { return r.http == http.MethodGet }) {
		asked = append(asked, r.header.Get("Last-Event-Id"))
		check(t, "session", r.header.Get("Mcp-Session-Id"), "s-1")
		check(t, "version", r.header.Get("Mcp-Protocol-Version"), "2025-11-25")
	}
	equal(t, "Last-Event-ID", asked, "e-1", "e-2", "e-2", "e-3", "e-3")
}

const aQuestion = `{'jsonrpc':'2.0','id':%d,'method':'elicitation/create','params':{'message':'?','requestedSchema':{}}}`

// What belongs to another call must not be asked here, and whoever it belongs
// to is to find it unanswered (contract 9).
func TestAServerThatMixesStreams(t *testing.T) {
	foreign := numbered("e-2", `{'jsonrpc':'2.0','id':8,'result':{}}`)
	for name, c := range map[string]struct {
		shared bool
		replay string
		want   string
	}{
		"another call's answer beside it":   {true, numbered("e-3", aQuestion, 3) + foreign, ""},
		"another call's progress beside it": {true, numbered("e-3", aQuestion, 3) + numbered("e-4", `{'jsonrpc':'2.0','method':'notifications/progress','params':{'progressToken':8}}`), ""},
		"in a session of its own":           {false, numbered("e-3", aQuestion, 3) + foreign, "3 elicitation/create"},
		"nothing else on the stream":        {true, numbered("e-3", aQuestion, 3), "3 elicitation/create"},
		"taken back at once":                {false, numbered("e-3", aQuestion, 3) + numbered("e-4", `{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':3}}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := replaying(t, c.replay, "", numbered("e-9", theResult))
			k := newKeeper()
			check(t, "result", resumeAt(t, s, token{Shared: c.shared}, k).text(), "done")
			check(t, "asked", k.questions(), c.want)
			check(t, "answers", len(s.all(func(r received) bool { return r.http == http.MethodPost && r.IsResponse() })), 0)
		})
	}
}

// Two calls of one session are resumed at the same time, by a server that shows
// each the other's question.
func TestCallsOfOneSessionKeepTheirQuestions(t *testing.T) {
	both := numbered("e-2", aQuestion, 3) + numbered("e-3", aQuestion, 4)
	s := replaying(t, both, both, both, both)
	h := connect(t, Options{URL: s.URL, Retry: 20 * time.Millisecond})
	keepers := []*keeper{newKeeper(), newKeeper()}
	for i, k := range keepers {
		tok := token{Session: "s-1", Version: "2025-11-25", Request: uint64(7 + i), Event: "e-1", Open: []wire.Raw{number(uint64(3 + i))}, Shared: true}
		begin(t, func(ctx context.Context) (Reply, error) {
			return h.Resume(ctx, tok.bytes(), toolCall(99, "x", `{}`), k)
		})
	}
	eventually(t, "all was replayed", func() bool { return len(s.all(func(r received) bool { return r.http == http.MethodGet })) > 6 })
	check(t, "first", keepers[0].questions(), "3 ")
	check(t, "second", keepers[1].questions(), "4 ")
}

func TestARetryFieldIsHonoured(t *testing.T) {
	s := replaying(t, "retry: 300\nid: e-2\ndata: \n\n", numbered("e-3", theResult))
	began := time.Now()
	check(t, "result", resumeAt(t, s, token{}, newKeeper()).text(), "done")
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("the server was asked again after %v", took)
	}
}

func TestAnAnswerThatCannotBeResumed(t *testing.T) {
	for name, replay := range map[string]string{
		"unreadable": "id: e-2\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{},\"error\":{}}\n\n",
		"too large":  "id: e-2\ndata: " + strings.Repeat("x", 5000) + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := replaying(t, replay, replay)
			h := connect(t, Options{URL: s.URL, Retry: 20 * time.Millisecond, MaxEvent: 4096})
			tok := token{Session: "s-1", Version: "2025-11-25", Request: 7, Event: "e-1"}
			if _, err := h.Resume(t.Context(), tok.bytes(), toolCall(99, "x", `{}`), newKeeper()); !errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("error: %v", err)
			}
		})
	}
}
