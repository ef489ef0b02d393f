package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// deadline is how long a test waits for what must happen.
const deadline = 20 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	mcptest.Eventually(t, deadline, what, ok)
}

func connect(t *testing.T, o Options) *Connector {
	t.Helper()
	o.Name = "test"
	h, err := NewHTTP(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

// toolCall is a request for a tool by a caller that declares everything.
func toolCall(id uint64, tool, arguments string) Request {
	return Request{
		ID: id, Method: "tools/call", Principal: "t/ann",
		Params:       wire.Object{}.With("name", wire.Quote(tool)).With("arguments", wire.Raw(arguments)),
		ClientInfo:   wire.Raw(`{"name":"client","version":"1"}`),
		Capabilities: wire.ParseCapabilities(wire.Raw(`{"elicitation":{"form":{}},"sampling":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)),
	}
}

func object(t *testing.T, json string) wire.Object {
	t.Helper()
	o, err := wire.ParseObject(wire.Raw(json))
	if err != nil {
		t.Fatalf("%s: %v", json, err)
	}
	return o
}

// recorder is a Handler that remembers. Its ask answers; nil declines.
type recorder struct {
	ask        func(ctx context.Context, method string, params wire.Raw) (wire.Raw, *wire.Error)
	onProgress func()

	mu       sync.Mutex
	progress []string
	notes    []string
	asked    []string
}

func (r *recorder) Progress(params wire.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = append(r.progress, string(params.Bytes()))
	if r.onProgress != nil {
		r.onProgress()
	}
}

func (r *recorder) Notify(method string, params wire.Raw) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, method+" "+string(params))
}

func (r *recorder) Ask(ctx context.Context, q Question) (wire.Raw, *wire.Error) {
	method, params := q.Method, q.Params
	r.mu.Lock()
	r.asked = append(r.asked, method)
	r.mu.Unlock()
	if r.ask == nil {
		return wire.Raw(`{"action":"decline"}`), nil
	}
	return r.ask(ctx, method, params)
}

func (r *recorder) seen() (progress, notes, asked []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.progress), slices.Clone(r.notes), slices.Clone(r.asked)
}

// received is what a scripted server got.
type received struct {
	wire.Message
	http   string // the HTTP method
	header http.Header
	gone   <-chan struct{} // closed when the client has hung up
}

func waitForCancel(r received) { <-r.gone }

// scripted is a server whose answers a test writes. What respond leaves alone
// (it returns false) is answered as a legacy server with one session would.
type scripted struct {
	*httptest.Server
	respond func(w http.ResponseWriter, r received) bool
	session string // given at initialize; "": none

	mu  sync.Mutex
	got []received
}

func serve(t *testing.T, respond func(w http.ResponseWriter, r received) bool) *scripted {
	t.Helper()
	s := &scripted{respond: respond, session: "s-1"}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	got := received{http: r.Method, header: r.Header, gone: r.Context().Done()}
	if r.Method == http.MethodPost {
		m, err := wire.Decode(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
			return
		}
		got.Message = m
	}
	s.mu.Lock()
	s.got = append(s.got, got)
	s.mu.Unlock()
	if !s.respond(w, got) {
		s.behave(w, got)
	}
}

func (s *scripted) behave(w http.ResponseWriter, r received) {
	switch {
	case r.Method == "server/discover":
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == "initialize":
		if s.session != "" {
			w.Header().Set("Mcp-Session-Id", s.session)
		}
		replyJSON(w, 200, r.ID, `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"scripted"}}`)
	case r.http == http.MethodDelete:
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *scripted) all(match func(received) bool) []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []received
	for _, r := range s.got {
		if match(r) {
			out = append(out, r)
		}
	}
	return out
}

func (s *scripted) methods() []string {
	var out []string
	for _, r := range s.all(func(received) bool { return true }) {
		switch {
		case r.http != http.MethodPost:
			out = append(out, r.http)
		case r.IsResponse():
			out = append(out, "response")
		default:
			out = append(out, r.Method)
		}
	}
	return out
}

func method(name string) func(received) bool {
	return func(r received) bool { return r.Method == name }
}

// replyJSON answers with one JSON-RPC message. A nil id is null.
func replyJSON(w http.ResponseWriter, status int, id wire.Raw, rest string) {
	if id == nil {
		id = wire.Raw("null")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, id, rest)
}

// stream writes server-sent events at once.
func stream(w http.ResponseWriter, text ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, t := range text {
		io.WriteString(w, t)
	}
	w.(http.Flusher).Flush()
}

// event is one message as a server-sent event; each ' in it stands for ".
func event(format string, args ...any) string {
	text := bytes.ReplaceAll([]byte(format), []byte("'"), []byte(`"`))
	return fmt.Sprintf("data: "+string(text)+"\n\n", args...)
}

const resultOK = `"result":{"content":[]}`

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
	}
}
