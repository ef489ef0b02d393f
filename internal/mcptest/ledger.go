package mcptest

import (
	"net/http"
	"sync"
	"time"

	"taskgate/wire"
)

// Received is one HTTP request as it reached an Upstream.
type Received struct {
	At      time.Time
	Method  string // of HTTP
	Header  http.Header
	Body    []byte
	Message wire.Message // zero when the body was none
}

// Ran is one run of a tool.
type Ran struct {
	Tool      string
	Key       string // the argument "key", as JSON without quotes
	Params    wire.Object
	Header    http.Header
	Cancelled bool // the client has cancelled it, honoured or not
	Ended     bool
}

// ledger remembers everything, in order.
type ledger struct {
	mu       sync.Mutex
	received []Received
	ran      []*Ran
}

// Requests returns what was received with the JSON-RPC method; "" is all, also
// what is no message.
func (l *ledger) Requests(method string) []Received {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Received
	for _, r := range l.received {
		if method == "" || r.Message.Method == method {
			list = append(list, r)
		}
	}
	return list
}

// Calls returns the runs of a tool with the given argument "key"; "" stands for
// all tools, and for all keys.
func (l *ledger) Calls(tool, key string) []Ran {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Ran
	for _, r := range l.ran {
		if (tool == "" || r.Tool == tool) && (key == "" || r.Key == key) {
			list = append(list, *r)
		}
	}
	return list
}

func (l *ledger) receive(r *http.Request, body []byte) Received {
	m, _ := wire.Decode(body)
	rec := Received{At: time.Now(), Method: r.Method, Header: r.Header.Clone(), Body: body, Message: m}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received = append(l.received, rec)
	return rec
}

func (l *ledger) begin(c *Call) *Ran {
	key := c.Arguments.Get("key")
	text, ok := wire.String(key)
	if !ok {
		text = string(key)
	}
	r := &Ran{Tool: c.Tool, Key: text, Params: c.Params, Header: c.x.header}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ran = append(l.ran, r)
	return r
}

func (l *ledger) note(r *Ran, f func(*Ran)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(r)
}
