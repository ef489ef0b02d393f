package mcptest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
	"time"

	"taskgate/wire"
)

// Capabilities that tests declare.
const (
	NoCapabilities = `{}`
	TasksOnly      = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	AllInput       = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`
	TasksAndInput  = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// Client is a small client of 2026-07-28. It sends what the specification asks
// for, unless an Option says otherwise. It may be used by several goroutines.
type Client struct {
	URL          string
	HTTP         *http.Client
	Capabilities wire.Raw
	Header       http.Header // sent with every request

	lastID atomic.Int64
}

// NewClient returns a client that declares the given capabilities on every
// request, over connections of its own.
func NewClient(url, capabilities string) *Client {
	return &Client{
		URL:          url,
		HTTP:         &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		Capabilities: wire.Raw(capabilities),
		Header:       http.Header{},
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// Reply is what came back for one request.
type Reply struct {
	Status        int
	Header        http.Header
	Body          []byte       // as it came, SSE framing and comments too
	Message       wire.Message // the response; zero when there was none
	Notifications []wire.Message
}

// Result is the result taken apart, empty when there is none.
func (r Reply) Result() wire.Object {
	o, _ := wire.ParseObject(r.Message.Result)
	return o
}

// Err is the JSON-RPC error, nil when there is none.
func (r Reply) Err() *wire.Error {
	if r.Message.Error == nil {
		return nil
	}
	return wire.ParseError(r.Message.Error)
}

// Type is the result's resultType.
func (r Reply) Type() string { return member(r.Result(), "resultType") }

// TaskID is the id of the task that the reply is about, "" for none.
func (r Reply) TaskID() string { return member(r.Result(), "taskId") }

// Text is the text of the first content of a tool result.
func (r Reply) Text() string { return textOf(r.Message.Result) }

func textOf(result wire.Raw) string {
	o, _ := wire.ParseObject(result)
	list, _ := wire.ParseArray(o.Get("content"))
	if len(list) == 0 {
		return ""
	}
	first, _ := wire.ParseObject(list[0])
	return member(first, "text")
}

func member(o wire.Object, name string) string {
	s, _ := wire.String(o.Get(name))
	return s
}

// Call sends one request and reads its whole answer. An error means that there
// was no HTTP response, or that it broke off; what had come is in the Reply.
func (c *Client) Call(ctx context.Context, method string, params wire.Raw, options ...Option) (Reply, error) {
	s := newSend(c, method, params)
	for _, o := range options {
		o(s)
	}
	request, err := s.request(ctx, c)
	if err != nil {
		return Reply{}, fmt.Errorf("%s: %w", method, err)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return Reply{}, fmt.Errorf("%s: %w", method, err)
	}
	defer response.Body.Close()
	reply := Reply{Status: response.StatusCode, Header: response.Header}
	if s.onHeader != nil {
		s.onHeader(response)
	}
	if err := reply.read(response.Body, s.onNotification); err != nil {
		return reply, fmt.Errorf("%s: %w", method, err)
	}
	return reply, nil
}

func (r *Reply) read(body io.Reader, onNotification func(wire.Message)) error {
	var raw bytes.Buffer
	defer func() { r.Body = raw.Bytes() }()
	body = io.TeeReader(body, &raw)
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch mediaType {
	case "text/event-stream":
		return wire.ReadEvents(body, maxBody, func(e wire.Event) error { return r.take(e.Data, onNotification) })
	case "application/json":
		b, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		return r.take(b, onNotification)
	}
	_, err := io.Copy(io.Discard, body)
	return err
}

func (r *Reply) take(b []byte, onNotification func(wire.Message)) error {
	m, e := wire.Decode(b)
	switch {
	case e != nil:
		return fmt.Errorf("not a message: %w: %.200s", e, b)
	case m.IsRequest():
		return fmt.Errorf("the server sent a request, which 2026-07-28 does not allow: %.200s", b)
	case m.IsResponse() && r.Message.IsResponse() && (r.Message.Result != nil || r.Message.Error != nil):
		return fmt.Errorf("a second response: %.200s", b)
	case m.IsResponse():
		r.Message = m
	default:
		r.Notifications = append(r.Notifications, m)
		if onNotification != nil {
			onNotification(m)
		}
	}
	return nil
}

// CallTool calls a tool. arguments is a JSON object.
func (c *Client) CallTool(ctx context.Context, name, arguments string, options ...Option) (Reply, error) {
	params := wire.Object{}.With("name", wire.Quote(name)).With("arguments", wire.Raw(arguments))
	return c.Call(ctx, "tools/call", params.Bytes(), options...)
}

// Task asks for a task's state.
func (c *Client) Task(ctx context.Context, id string, options ...Option) (Reply, error) {
	return c.Call(ctx, "tasks/get", taskParams(id).Bytes(), options...)
}

// Update answers a task's questions; responses are results by key.
func (c *Client) Update(ctx context.Context, id string, responses wire.Object, options ...Option) (Reply, error) {
	return c.Call(ctx, "tasks/update", taskParams(id).With("inputResponses", responses.Bytes()).Bytes(), options...)
}

// Cancel asks for the end of a task.
func (c *Client) Cancel(ctx context.Context, id string, options ...Option) (Reply, error) {
	return c.Call(ctx, "tasks/cancel", taskParams(id).Bytes(), options...)
}

func taskParams(id string) wire.Object { return wire.Object{}.With("taskId", wire.Quote(id)) }

// WaitTask polls every 20 ms until the task has the status. Another terminal
// status, an error and the end of ctx are errors that say what was seen last.
func (c *Client) WaitTask(ctx context.Context, id, status string) (wire.Object, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last wire.Message
	for {
		reply, err := c.Task(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("wait for %s: %w; last seen: %s", status, err, last.Bytes())
		}
		last = reply.Message
		switch got := member(reply.Result(), "status"); got {
		case status:
			return reply.Result(), nil
		case "", wire.StatusCompleted, wire.StatusFailed, wire.StatusCancelled:
			if reply.Status != http.StatusTooManyRequests { // it does poll too fast
				return nil, fmt.Errorf("wait for %s: got %d %s", status, reply.Status, reply.Body)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w; last seen: %s", status, ctx.Err(), last.Bytes())
		}
	}
}

// Accept is the result of an elicitation that was accepted; content is a JSON object.
func Accept(content string) wire.Raw {
	return wire.Raw(`{"action":"accept","content":` + content + `}`)
}
