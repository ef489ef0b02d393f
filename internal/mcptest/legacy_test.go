package mcptest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskgate/wire"
)

// peer speaks to a legacy upstream message by message.
type peer struct {
	t       *testing.T
	url     string
	session string
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + AllInput + `,"clientInfo":{"name":"p","version":"1"}}}`

func newPeer(t *testing.T, u *Upstream) *peer {
	t.Helper()
	p := &peer{t: t, url: u.Start(t)}
	p.open()
	return p
}

func (p *peer) open() {
	p.t.Helper()
	p.session = ""
	r := p.do(http.MethodPost, initialize)
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		p.t.Fatalf("initialize: %s", r.Status)
	}
	p.session = r.Header.Get(wire.HeaderSession)
	p.want(http.StatusAccepted, "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (p *peer) do(method, body string, headers ...string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if p.session != "" {
		r.Header.Set(wire.HeaderSession, p.session)
		r.Header.Set(wire.HeaderVersion, wire.LegacyVersion)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, body, err)
	}
	return response
}

// want posts and compares the status and a part of the body.
func (p *peer) want(status int, says, body string, headers ...string) {
	p.t.Helper()
	r := p.do(http.MethodPost, body, headers...)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if r.StatusCode != status || !strings.Contains(string(b), says) || err != nil {
		p.t.Errorf("%s: got %d %s, %v; want %d %s", body, r.StatusCode, b, err, status, says)
	}
}

func toolCall(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"p%d"}}}`, id, tool, arguments, id)
}

// lines reads a stream line by line; ok is false at its end.
type lines struct {
	t *testing.T
	r *http.Response
	s *bufio.Scanner
}

func (p *peer) stream(method, body string, headers ...string) *lines {
	r := p.do(method, body, headers...)
	p.t.Cleanup(func() { _ = r.Body.Close() })
	return &lines{t: p.t, r: r, s: bufio.NewScanner(r.Body)}
}

// until returns the next line that contains text.
func (l *lines) until(text string) string {
	l.t.Helper()
	for l.s.Scan() {
		if strings.Contains(l.s.Text(), text) {
			return l.s.Text()
		}
	}
	l.t.Fatalf("the stream ended before %q: %v", text, l.s.Err())
	return ""
}

// end wants the stream to end with no response in what is left.
func (l *lines) end() error {
	l.t.Helper()
	for l.s.Scan() {
		if strings.Contains(l.s.Text(), `"result"`) {
			l.t.Errorf("a response came: %s", l.s.Text())
		}
	}
	return l.s.Err()
}

// gate is a tool that reports progress and then waits for its test.
func gate() (Tool, chan struct{}) {
	open := make(chan struct{})
	return Tool{Name: "gate", Run: func(c *Call) (wire.Raw, *wire.Error) {
		c.Progress(1, 0, "")
		select {
		case <-open:
			return Text("open"), nil
		case <-c.Cancelled():
			return Text("cancelled"), nil
		}
	}}, open
}

func TestLegacySessionLoss(t *testing.T) {
	for form, says := range map[LossForm]string{Loss404JSON: `"code":-32001,"message":"Session not found"`, Loss404Text: "session not found", Loss400: `"code":-32000,"message":"Bad Request: No valid session ID provided"`} {
		u := with(NewLegacy(Fixtures(0)...), Options{Loss: form})
		p := newPeer(t, u)
		p.want(http.StatusOK, "Hello, a!", toolCall(1, "greet", `{"name":"a"}`))
		u.LoseSessions()
		status := http.StatusNotFound
		if form == Loss400 {
			status = http.StatusBadRequest
		}
		p.want(status, says, toolCall(2, "greet", `{"name":"a"}`))
		p.open()
		p.want(http.StatusOK, "Hello, b!", toolCall(3, "greet", `{"name":"b"}`))
		if n := len(u.Calls("greet", "")); n != 2 {
			t.Errorf("greet ran %d times", n)
		}
		if n := len(u.Requests("initialize")); n != 2 {
			t.Errorf("%d sessions", n)
		}
	}
}

func TestLegacyIsStrict(t *testing.T) {
	u := NewLegacy(Fixtures(0)...)
	p := newPeer(t, u)
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	p.want(http.StatusOK, `"greet"`, list)
	p.want(http.StatusNotAcceptable, "must accept both", list, "Accept", "application/json")
	p.want(http.StatusUnsupportedMediaType, "must be application/json", list, "Content-Type", "text/plain")
	p.want(http.StatusBadRequest, "MCP-Protocol-Version", list, wire.HeaderVersion, "2025-06-18")
	p.want(http.StatusBadRequest, "-32700", `{`)
	p.want(http.StatusBadRequest, "batches", `[`+list+`]`)
	p.want(http.StatusOK, "-32601", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`)
	p.want(http.StatusOK, "Unknown tool: none", toolCall(1, "none", `{}`))
	p.want(http.StatusOK, `"result":{}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if r := p.do(http.MethodPut, ``); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %s", r.Status)
	}
	p.session = ""
	p.want(http.StatusBadRequest, "Mcp-Session-Id header is required", list)
	r := p.do(http.MethodPost, initialize)
	p.session = r.Header.Get(wire.HeaderSession)
	_ = r.Body.Close()
	p.want(http.StatusBadRequest, "notifications/initialized has not come yet", list)
}

func TestLegacyVersions(t *testing.T) {
	p := newPeer(t, NewLegacy())
	p.session = ""
	for asked, got := range map[string]string{"2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25", "2026-07-28": "2025-11-25", "x": "2025-11-25"} {
		p.want(http.StatusOK, `"protocolVersion":"`+got+`"`, strings.Replace(initialize, "2025-11-25", asked, 1))
	}
}

func TestLegacyQuestionsOnTheStream(t *testing.T) {
	p := newPeer(t, NewLegacy(Fixtures(0)...))
	s := p.stream(http.MethodPost, toolCall(1, "multi_input", `{}`))
	s.until(`"id":0,"method":"elicitation/create"`)
	s.until(`"id":1,"method":"elicitation/create"`)
	p.want(http.StatusAccepted, "", `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"colour":"red"}}}`)
	p.want(http.StatusAccepted, "", `{"jsonrpc":"2.0","id":7,"result":{}}`)
	p.want(http.StatusAccepted, "", `{"jsonrpc":"2.0","id":0,"result":{"action":"accept","content":{"name":"Ann"}}}`)
	s.until("Ann likes red.")
}

func TestAllKindsOfQuestionsAtOnce(t *testing.T) {
	tool := Tool{Name: "ask", Run: func(c *Call) (wire.Raw, *wire.Error) {
		got, err := c.Ask(
			Elicit("e", "?"),
			Question{Key: "s", Method: wire.MethodSampling, Params: wire.Raw(`{"messages":[],"maxTokens":1}`)},
			Question{Key: "r", Method: wire.MethodRoots},
		)
		if err != nil {
			return nil, err
		}
		return Text(string(got["e"]) + string(got["s"]) + string(got["r"])), nil
	}}
	p := newPeer(t, NewLegacy(tool))
	s := p.stream(http.MethodPost, toolCall(1, "ask", `{}`))
	s.until(`"id":0,"method":"elicitation/create"`)
	s.until(`"id":1,"method":"sampling/createMessage"`)
	s.until(`{"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
	for id := 2; id >= 0; id-- {
		p.want(http.StatusAccepted, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"n":%d}}`, id, id))
	}
	s.until(`{\"n\":0}{\"n\":1}{\"n\":2}`)

	c := modernClient(t, NewModern(tool), AllInput)
	inputs := mustCall(t, c, "ask", `{}`).Result().Get("inputRequests")
	o, err := wire.ParseObject(inputs)
	if err != nil || len(o) != 3 || string(o.Get("r")) != `{"method":"roots/list"}` {
		t.Errorf("inputRequests: %s, %v", inputs, err)
	}
}

func TestLegacyAsksOnlyWhoCanAnswer(t *testing.T) {
	p := &peer{t: t, url: NewLegacy(Fixtures(0)...).Start(t)}
	r := p.do(http.MethodPost, strings.Replace(initialize, AllInput, `{"sampling":{}}`, 1))
	_ = r.Body.Close()
	p.session = r.Header.Get(wire.HeaderSession)
	p.want(http.StatusAccepted, "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.want(http.StatusOK, "Client does not support elicitation/create", toolCall(1, "confirm_delete", `{"filename":"a"}`))
}

func TestLegacyQuestionRefused(t *testing.T) {
	p := newPeer(t, NewLegacy(Fixtures(0)...))
	s := p.stream(http.MethodPost, toolCall(1, "multi_input", `{}`))
	s.until(`"id":0,"method":"elicitation/create"`)
	p.want(http.StatusAccepted, "", `{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"no"}}`)
	s.until(`"error":{"code":-1,"message":"no"}`)
}

func TestLegacyCancel(t *testing.T) {
	cancelled := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	for mode, want := range map[CancelMode]string{CancelStops: "", CancelAnswers: "cancelled", CancelSilent: "", CancelIgnored: "open"} {
		tool, open := gate()
		u := with(NewLegacy(tool), Options{Cancel: mode})
		p := newPeer(t, u)
		s := p.stream(http.MethodPost, toolCall(1, "gate", `{}`))
		s.until("progress")
		p.want(http.StatusAccepted, "", cancelled)
		if mode == CancelSilent || mode == CancelIgnored {
			close(open)
		}
		Eventually(t, 5*time.Second, "end of the tool", func() bool { return u.Calls("gate", "")[0].Ended })
		if !u.Calls("gate", "")[0].Cancelled {
			t.Errorf("mode %d: the ledger knows of no cancel", mode)
		}
		switch {
		case want != "":
			s.until(want)
		case mode == CancelSilent:
			u.CutStreams() // it is still open
			if err := s.end(); err == nil {
				t.Error("the stream ended by itself")
			}
		default:
			if err := s.end(); err != nil {
				t.Errorf("mode %d: %v", mode, err)
			}
		}
	}
}

func TestLegacyCutAndResume(t *testing.T) {
	tool, open := gate()
	u := with(NewLegacy(tool), Options{Resumable: true})
	p := newPeer(t, u)
	s := p.stream(http.MethodPost, toolCall(1, "gate", `{}`))
	first := strings.TrimPrefix(s.until("id: "), "id: ")
	s.until("progress")
	u.CutStreams()
	if err := s.end(); err == nil {
		t.Error("a cut stream ended well")
	}
	resumed := p.stream(http.MethodGet, "", wire.HeaderLastEvent, first)
	id := strings.TrimPrefix(resumed.until("id: "), "id: ")
	resumed.until("progress")
	close(open)
	resumed.until("open")
	again := p.stream(http.MethodGet, "", wire.HeaderLastEvent, id)
	if line := again.until("data: "); !strings.Contains(line, "open") {
		t.Errorf("resumed after the progress, got %s", line)
	}
	if r := p.do(http.MethodGet, "", wire.HeaderLastEvent, "none/1"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown event: %s", r.Status)
	}
	if n := len(u.Calls("gate", "")); n != 1 {
		t.Errorf("gate ran %d times", n)
	}
}

func TestLegacyToolCutsItsStream(t *testing.T) {
	u := NewLegacy(Tool{Name: "cut", Run: func(c *Call) (wire.Raw, *wire.Error) {
		c.Progress(1, 2, "half")
		c.Cut()
		return Text("lost"), nil
	}})
	p := newPeer(t, u)
	if err := p.stream(http.MethodPost, toolCall(1, "cut", `{}`)).end(); err == nil {
		t.Error("a cut stream ended well")
	}
}

func TestLegacyDelete(t *testing.T) {
	tool, _ := gate()
	u := NewLegacy(tool)
	p := newPeer(t, u)
	s := p.stream(http.MethodPost, toolCall(1, "gate", `{}`))
	s.until("progress")
	if r := p.do(http.MethodDelete, ""); r.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", r.Status)
	}
	if err := s.end(); err != nil || u.Sessions() != 0 {
		t.Errorf("%v, %d sessions", err, u.Sessions())
	}
	p.want(http.StatusNotFound, "-32001", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
}

func TestLegacyRefusesAnIDInUse(t *testing.T) {
	tool, open := gate()
	p := newPeer(t, NewLegacy(tool))
	s := p.stream(http.MethodPost, toolCall(1, "gate", `{}`))
	s.until("progress")
	p.want(http.StatusOK, "request id 1 is in use", toolCall(1, "gate", `{}`))
	close(open)
	s.until("open")
	p.want(http.StatusOK, "open", toolCall(1, "gate", `{}`))
}

func TestLegacyJSONAndStateless(t *testing.T) {
	u := with(NewLegacy(Fixtures(0)...), Options{JSON: true, Stateless: true})
	p := newPeer(t, u)
	if p.session != "" {
		t.Errorf("session %q", p.session)
	}
	r := p.do(http.MethodPost, toolCall(1, "slow_compute", `{"seconds":1}`))
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if want := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"Computed.","type":"text"}]}}`; string(b) != want || err != nil || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s, %v", b, err)
	}
	p.want(http.StatusOK, "no way to ask", toolCall(2, "multi_input", `{}`))
}

func TestLegacyStandaloneStream(t *testing.T) {
	u := NewLegacy()
	p := newPeer(t, u)
	s := p.stream(http.MethodGet, "")
	u.Broadcast(wire.Message{ID: wire.Raw("5"), Method: wire.MethodRoots})
	s.until(`"id":5,"method":"roots/list"`)
	p.want(http.StatusAccepted, "", `{"jsonrpc":"2.0","id":5,"result":{"roots":[]}}`)
	last := u.Requests("")[len(u.Requests(""))-1]
	if !last.Message.IsResponse() || string(last.Message.ID) != "5" {
		t.Errorf("last in the ledger: %s", last.Body)
	}
}

func TestFaults(t *testing.T) {
	u := NewLegacy(Fixtures(0)...)
	p := newPeer(t, u)
	u.Fail("tools/call", 1, Respond(500, "text/plain", "oops"))
	u.Fail("tools/list", 2, Respond(401, "text/html", ""))
	u.Fail("tools/call", 1, Respond(200, "application/json", "{garbage"))
	call, list := toolCall(1, "greet", `{"name":"a"}`), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	p.want(500, "oops", call)
	p.want(401, "", list)
	p.want(200, "{garbage", call)
	p.want(200, "Hello", call)
	p.want(401, "", list)
	p.want(200, "greet", list)
	if n, ran := len(u.Requests("tools/call")), len(u.Calls("greet", "")); n != 3 || ran != 1 {
		t.Errorf("%d received, %d ran", n, ran)
	}
	u.Fail("", 1, Drop)
	if _, err := http.Post(p.url, "application/json", strings.NewReader(call)); err == nil {
		t.Error("a dropped connection gave a response")
	}
	u.Fail("", 1, Hang)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(call))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := http.DefaultClient.Do(r); err == nil || ctx.Err() == nil {
		t.Errorf("a hanging server answered: %v", err)
	}
}

func TestUpstreamCloseEndsCalls(t *testing.T) {
	tool, _ := gate()
	u := NewLegacy(tool)
	url, stop, err := u.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, url: url}
	p.open()
	p.stream(http.MethodPost, toolCall(1, "gate", `{}`)).until("progress")
	stop() // returns when the tool has
	if c := u.Calls("gate", ""); len(c) != 1 || !c[0].Ended || c[0].Cancelled {
		t.Errorf("calls: %+v", c)
	}
}

func TestLedgerKeys(t *testing.T) {
	u := NewLegacy(Fixtures(0)...)
	p := newPeer(t, u)
	for i, key := range []string{`"a"`, `"b"`, `7`, `"a"`} {
		p.want(200, "Hello", toolCall(i, "greet", `{"key":`+key+`}`))
	}
	for key, want := range map[string]int{"a": 2, "b": 1, "7": 1, "c": 0, "": 4} {
		if got := len(u.Calls("greet", key)); got != want {
			t.Errorf("key %q: %d", key, got)
		}
	}
	if n := len(u.Calls("", "a")); n != 2 {
		t.Errorf("any tool: %d", n)
	}
}
