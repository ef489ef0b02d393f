package legacyfront_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app/apptest"
	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/wire"
)

// deadline is how long a test waits for what must happen.
const deadline = 20 * time.Second

const everything = `{"elicitation":{},"sampling":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// replicas are two gateways over one Redis, by the URLs of their endpoint.
func replicas(t *testing.T, up *mcptest.Upstream) (a, b string) {
	t.Helper()
	store, url := redistest.Start(t).URL(), up.Start(t)
	return gateway(t, url, store), gateway(t, url, store)
}

// gateway promotes what it may at once, which no client here must notice.
func gateway(t *testing.T, upstream, store string) string {
	t.Helper()
	return gatewayWith(t, upstream, store, "defaults: {promoteAfter: 0s}\n")
}

func gatewayWith(t *testing.T, upstream, store, policy string) string {
	t.Helper()
	g := apptest.Start(t, zap.NewNop(), `
store: `+store+`
identity: [{apiKeys: {keys: [{tenant: t, subject: ann, sha256: `+sum("ann")+`}, {tenant: t, subject: bob, sha256: `+sum("bob")+`}]}}]
timeouts: {drain: 0s, holdAfter: 100ms, recheck: 5m} # no test here can wait for that
upstreams: [{name: up, url: "`+upstream+`"}, {name: same, path: /same, url: "`+upstream+`"}]
`, policy)
	return g.Endpoints()[0]
}

// client is one of 2025-11-25 or earlier, as bare as can be.
type client struct {
	t       *testing.T
	caller  string
	session string
	version string
	sent    int
}

// open opens a session of ann's.
func open(t *testing.T, url, version, capabilities string) *client {
	t.Helper()
	return openAs(t, "ann", url, version, capabilities)
}

func openAs(t *testing.T, caller, url, version, capabilities string) *client {
	t.Helper()
	c := &client{t: t, caller: caller}
	r := c.post(url, `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"`+version+
		`","capabilities":`+capabilities+`,"clientInfo":{"name":"old","version":"1"}}}`)
	result := r.result()
	c.session, c.version = r.Header.Get(wire.HeaderSession), version
	if got, _ := wire.String(result.Get("protocolVersion")); got != version || c.session == "" {
		t.Fatalf("initialize: version %q, session %q", got, c.session)
	}
	r = c.post(url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	defer r.Body.Close()
	if r.StatusCode != http.StatusAccepted {
		t.Fatalf("initialized: status %d", r.StatusCode)
	}
	return c
}

// response is what came back; a stream is read event by event.
type response struct {
	*http.Response
	t      *testing.T
	events chan wire.Event // nil: no stream
	lastID string
}

func (c *client) post(url, body string) *response {
	return c.do(http.MethodPost, url, body, "Content-Type", "application/json")
}

func (c *client) do(method, url, body string, header ...string) *response {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), 2*deadline)
	c.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	header = append([]string{"Accept", "application/json, text/event-stream", "Authorization", "Bearer " + c.caller}, header...)
	if c.session != "" {
		header = append(header, wire.HeaderSession, c.session, wire.HeaderVersion, c.version)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { resp.Body.Close() })
	r := &response{Response: resp, t: c.t}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		r.events = make(chan wire.Event, 100)
		go func() {
			defer close(r.events)
			_ = wire.ReadStream(resp.Body, 1<<20, func(e wire.Event) error { r.events <- e; return nil }) // until somebody closes it
		}()
	}
	return r
}

// request sends a request with an id of its own.
func (c *client) request(url, method, params string) *response {
	c.t.Helper()
	c.sent++
	return c.post(url, `{"jsonrpc":"2.0","id":`+strconv.Itoa(c.sent)+`,"method":"`+method+`","params":`+params+`}`)
}

func (c *client) call(url, tool string) *response {
	c.t.Helper()
	return c.request(url, "tools/call", `{"name":"`+tool+`","arguments":{},"_meta":{"progressToken":"p"}}`)
}

// next is the next message; ok is false when there will be none.
func (r *response) next() (msg wire.Message, ok bool) {
	r.t.Helper()
	if r.events == nil {
		body, err := io.ReadAll(r.Body)
		if err != nil || len(bytes.TrimSpace(body)) == 0 {
			return msg, false
		}
		msg, rpc := wire.Decode(body)
		if rpc != nil {
			r.t.Fatalf("status %d, body %q: %v", r.StatusCode, body, rpc)
		}
		return msg, true
	}
	for {
		select {
		case e, open := <-r.events:
			if !open {
				return msg, false
			}
			r.lastID = e.ID
			if e.Data == nil {
				continue
			}
			msg, rpc := wire.Decode(e.Data)
			if rpc != nil {
				r.t.Fatalf("event %q: %v", e.Data, rpc)
			}
			return msg, true
		case <-time.After(deadline):
			r.t.Fatal("nothing more came")
		}
	}
}

// until is the next message of that method; "" is for the answer.
func (r *response) until(method string) wire.Message {
	var last wire.Message
	r.t.Helper()
	for {
		msg, ok := r.next()
		if !ok {
			r.t.Fatalf("the stream ended before %q; status %d, last %s", method, r.StatusCode, last.Bytes())
		}
		last = msg
		if msg.Method == method {
			return msg
		}
	}
}

func (r *response) result() wire.Object {
	r.t.Helper()
	msg := r.until("")
	if msg.Result == nil {
		r.t.Fatalf("status %d, no result: %s", r.StatusCode, msg.Bytes())
	}
	o, err := wire.ParseObject(msg.Result)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

func (r *response) error() *wire.Error {
	r.t.Helper()
	msg := r.until("")
	if msg.Error == nil {
		r.t.Fatalf("status %d, no error: %s", r.StatusCode, msg.Bytes())
	}
	return wire.ParseError(msg.Error)
}

// answer answers a question at url.
func (c *client) answer(url string, question wire.Message, member, value string) {
	c.t.Helper()
	c.accepted(url, `{"jsonrpc":"2.0","id":`+string(question.ID)+`,"`+member+`":`+value+`}`)
}

func (c *client) accepted(url, body string) {
	c.t.Helper()
	if r := c.post(url, body); r.StatusCode != http.StatusAccepted {
		msg, _ := r.next()
		c.t.Errorf("status %d, want 202: %s", r.StatusCode, msg.Bytes())
	}
}

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %v\nwant %v", what, got, want)
	}
}
