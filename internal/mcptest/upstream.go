package mcptest

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"taskgate/wire"
)

// Options of an Upstream. They are to be set before it serves.
type Options struct {
	// JSON answers calls with application/json instead of SSE. Notifications
	// are lost then, and a legacy tool cannot ask.
	JSON   bool
	Cancel CancelMode
	// Capabilities are announced by initialize and server/discover; nil: tools.
	Capabilities wire.Raw

	// Stateless (legacy) gives out no session ids.
	Stateless bool
	// Resumable (legacy) gives events ids and honours GET with Last-Event-ID.
	Resumable bool
	// Insistent (legacy) asks what its client has not declared as well.
	Insistent bool
	// Loss (legacy) is the answer to a session id that is not known (any more).
	Loss LossForm

	// RequestState (modern) lets a question carry the earlier answers in a
	// requestState, and refuses retries that do not bring it back. Without it a
	// client has to send all answers it was ever asked for.
	RequestState bool
}

// Method answers a JSON-RPC method other than those an Upstream knows.
type Method func(params wire.Object) (wire.Raw, *wire.Error)

// Upstream is a scriptable MCP server with a ledger. It is an http.Handler.
type Upstream struct {
	Options
	ledger
	faults

	era     era
	made    taskTable
	tools   []Tool
	methods map[string]Method
	runs    sync.WaitGroup

	mu      sync.Mutex
	open    map[*exchange]bool
	closing bool
}

// era is how requests are taken and answered.
type era interface {
	serve(w http.ResponseWriter, r *http.Request, rec Received)
}

// NewLegacy returns a server of 2025-11-25 (initialize, sessions, questions on
// the response stream).
func NewLegacy(tools ...Tool) *Upstream {
	u := newUpstream(tools)
	u.era = newLegacy(u)
	return u
}

// NewModern returns a server of 2026-07-28 (stateless, questions by
// InputRequiredResult).
func NewModern(tools ...Tool) *Upstream {
	u := newUpstream(tools)
	u.era = &modern{u: u}
	return u
}

func newUpstream(tools []Tool) *Upstream {
	return &Upstream{tools: tools, methods: map[string]Method{}, open: map[*exchange]bool{}}
}

// Handle lets f answer a method, before it serves.
func (u *Upstream) Handle(method string, f Method) { u.methods[method] = f }

// Start serves on a free port until the test ends and returns the URL.
func (u *Upstream) Start(t testing.TB) string {
	t.Helper()
	url, stop, err := u.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return url
}

// Listen serves on addr until stop is called, which ends all calls. An upstream
// can be started once.
func (u *Upstream) Listen(addr string) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", u)
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }() // ends by Close
	return "http://" + l.Addr().String() + "/mcp", func() {
		u.close()
		_ = server.Close()
		u.runs.Wait()
	}, nil
}

func (u *Upstream) close() {
	u.mu.Lock()
	u.closing = true
	u.mu.Unlock()
	for _, x := range u.running() {
		x.stop()
	}
}

const maxBody = 16 << 20

func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return // gone, or too much for a test
	}
	rec := u.receive(r, body)
	if f := u.take(rec.Message.Method); f != nil {
		f(w, r)
		return
	}
	u.era.serve(w, r, rec)
}

// answer answers what is the same in both eras and is no tools/call; nil is for
// a method that is not known.
func (u *Upstream) answer(method string, params wire.Object) (result wire.Raw, err *wire.Error) {
	if f := u.methods[method]; f != nil {
		return f(params)
	}
	if method == "tools/list" {
		return u.list(), nil
	}
	return nil, wire.Errorf(wire.CodeMethodNotFound, "Method not found: %s", method)
}

func (u *Upstream) list() wire.Raw {
	tools := []wire.Raw{}
	for _, t := range u.tools {
		tools = append(tools, t.definition())
	}
	return JSON(map[string]any{"tools": tools})
}

func (t Tool) definition() wire.Raw {
	if t.Definition == nil {
		t.Definition = wire.Raw(`{"description":"A tool for tests.","inputSchema":{"type":"object"}}`)
	}
	o, err := wire.ParseObject(t.Definition)
	if err != nil {
		panic("mcptest: definition of " + t.Name + ": " + err.Error())
	}
	if t.Task {
		o = o.With("execution", wire.Raw(`{"taskSupport":"required"}`))
	}
	return o.With("name", wire.Quote(t.Name)).Bytes()
}

func (u *Upstream) tool(name wire.Raw) (Tool, *wire.Error) {
	s, _ := wire.String(name)
	for _, t := range u.tools {
		if t.Name == s {
			return t, nil
		}
	}
	return Tool{}, wire.Errorf(wire.CodeInvalidParams, "Unknown tool: %s", s)
}

func (u *Upstream) capabilities() wire.Raw {
	if u.Capabilities != nil {
		return u.Capabilities
	}
	return wire.Raw(`{"tools":{}}`)
}

// respond writes what was answered outside a call.
func respond(id, result wire.Raw, err *wire.Error) wire.Message {
	if err != nil {
		return wire.Failure(id, err)
	}
	return wire.Result(id, result)
}

// reply sends the answer of an exchange, as a stream or as JSON.
func (u *Upstream) reply(ctx context.Context, w http.ResponseWriter, x *exchange, status func(wire.Message) int) error {
	if u.JSON {
		return x.stream.serveJSON(ctx, w, status)
	}
	return x.stream.serve(ctx, w, 0)
}
