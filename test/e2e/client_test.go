package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskgate/wire"
)

// caller is a modern client that can be told to do everything wrong.
type caller struct {
	url string
	// id is the JSON-RPC id of every request.
	id wire.Raw
	// capabilities is the ClientCapabilities object of every request.
	capabilities wire.Raw
}

const (
	declaresTasks = `{"elicitation":{"form":{}},"sampling":{},"extensions":{"` + wire.TasksExtension + `":{}}}`
	declaresNone  = `{}`
)

func tasksCaller(g *Gateway) caller {
	return caller{url: g.Endpoint, id: wire.Raw("1"), capabilities: wire.Raw(declaresTasks)}
}

// answer is what came back for one POST.
type answer struct {
	status  int
	header  http.Header
	message wire.Message
	// before are the notifications on the stream before the response.
	before []wire.Message
	body   []byte
}

// object is the result as an object.
func (a answer) object() (wire.Object, error) {
	if a.message.Result == nil {
		return nil, fmt.Errorf("no result in the answer with status %d: %s", a.status, a.body)
	}
	return wire.ParseObject(a.message.Result)
}

// result is object for a test that cannot go on without it.
func (a answer) result(t testing.TB) wire.Object {
	t.Helper()
	o, err := a.object()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// rpcError is the answer's error; the test fails when there is none.
func (a answer) rpcError(t testing.TB) *wire.Error {
	t.Helper()
	if a.message.Error == nil {
		t.Fatalf("no error in the answer with status %d: %s", a.status, a.body)
	}
	return wire.ParseError(a.message.Error)
}

// request is a well-formed modern request with the given params.
func (c caller) request(method string, params wire.Object) (body []byte, header http.Header) {
	meta := wire.Object{}.
		With(wire.MetaVersion, wire.Quote(wire.Version)).
		With(wire.MetaClientInfo, wire.Raw(`{"name":"e2e","version":"0"}`)).
		With(wire.MetaCapabilities, c.capabilities)
	body = wire.Message{ID: c.id, Method: method, Params: params.With("_meta", meta.Bytes()).Bytes()}.Bytes()
	header = http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	header.Set(wire.HeaderVersion, wire.Version)
	header.Set(wire.HeaderMethod, method)
	for _, member := range []string{"name", "taskId", "uri"} {
		if v, ok := wire.String(params.Get(member)); ok {
			header.Set(wire.HeaderName, wire.EncodeHeader(v))
		}
	}
	return body, header
}

// do sends a well-formed request; an error means that there was no answer.
func (c caller) do(ctx context.Context, method string, params wire.Object) (answer, error) {
	body, header := c.request(method, params)
	a, err := post(ctx, c.url, body, header)
	if err != nil {
		return a, fmt.Errorf("%s: %w", method, err)
	}
	return a, nil
}

// send is do for a test that cannot go on without an answer.
func (c caller) send(t testing.TB, method string, params wire.Object) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := c.do(ctx, method, params)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func post(ctx context.Context, url string, body []byte, header http.Header) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return a, fmt.Errorf("body of the answer: %w", err)
	}
	return a, a.decode()
}

// decode takes the response out of a JSON body or out of an event stream.
func (a *answer) decode() error {
	if len(a.body) == 0 {
		return nil
	}
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		m, err := wire.Decode(a.body)
		a.message = m
		if err != nil {
			return fmt.Errorf("answer %q: %w", a.body, err)
		}
		return nil
	}
	return wire.ReadEvents(bytes.NewReader(a.body), len(a.body)+1, func(e wire.Event) error {
		m, err := wire.Decode(e.Data)
		switch {
		case err != nil:
			return fmt.Errorf("event %q: %w", e.Data, err)
		case m.IsResponse():
			a.message = m
		default:
			a.before = append(a.before, m)
		}
		return nil
	})
}

// arguments of a tool.
type arguments map[string]any

// toolCall is the params of tools/call.
func toolCall(tool string, args arguments) wire.Object {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err) // a test has arguments that are no JSON
	}
	return wire.Object{}.With("name", wire.Quote(tool)).With("arguments", raw)
}

func taskParams(id string) wire.Object {
	return wire.Object{}.With("taskId", wire.Quote(id))
}

// begin calls a tool, which must make a task, and returns its id.
func (c caller) begin(ctx context.Context, tool string, args arguments) (string, error) {
	a, err := c.do(ctx, "tools/call", toolCall(tool, args))
	if err != nil {
		return "", err
	}
	r, err := a.object()
	if err != nil {
		return "", err
	}
	id, ok := wire.String(r.Get("taskId"))
	if kind, _ := wire.String(r.Get("resultType")); kind != wire.ResultTask || !ok {
		return "", fmt.Errorf("%s made no task: %s", tool, r.Bytes())
	}
	return id, nil
}

// start is begin for a test that cannot go on without the task.
func (c caller) start(t testing.TB, tool string, args arguments) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	id, err := c.begin(ctx, tool, args)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// look reads the task.
func (c caller) look(ctx context.Context, id string) (task wire.Object, status string, err error) {
	a, err := c.do(ctx, "tasks/get", taskParams(id))
	if err != nil {
		return nil, "", err
	}
	if task, err = a.object(); err != nil {
		return nil, "", err
	}
	status, _ = wire.String(task.Get("status"))
	return task, status, nil
}

// poll reads the task until it has the status, and returns it. A task that ends
// in another way is an error.
func (c caller) poll(ctx context.Context, id, status string) (wire.Object, error) {
	for {
		task, now, err := c.look(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case now == status:
			return task, nil
		case ended(now):
			return nil, fmt.Errorf("task is %s, not %s: %s", now, status, task.Bytes())
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("task is still %s, not %s: %w", now, status, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// wait is poll for a test that cannot go on without it.
func (c caller) wait(t testing.TB, id, status string) wire.Object {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	task, err := c.poll(ctx, id, status)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func ended(status string) bool {
	return status == wire.StatusCompleted || status == wire.StatusFailed || status == wire.StatusCancelled
}

// respond answers every pending question of the task with the same result.
func (c caller) respond(ctx context.Context, id string, task wire.Object, result wire.Raw) error {
	asked, err := wire.ParseObject(task.Get("inputRequests"))
	if err != nil {
		return fmt.Errorf("inputRequests: %w", err)
	}
	var answers wire.Object
	for _, q := range asked {
		answers = answers.With(q.Name, result)
	}
	a, err := c.do(ctx, "tasks/update", taskParams(id).With("inputResponses", answers.Bytes()))
	if err != nil {
		return err
	}
	ack, err := a.object()
	if err != nil {
		return err
	}
	if kind, _ := wire.String(ack.Get("resultType")); kind != wire.ResultComplete {
		return fmt.Errorf("tasks/update: %s", ack.Bytes())
	}
	return nil
}

// text is the first text of a CallToolResult.
func text(t testing.TB, result wire.Raw) string {
	t.Helper()
	var r struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) == 0 {
		t.Fatalf("no content in %s: %v", result, err)
	}
	return r.Content[0].Text
}

// within fails the test when f takes longer than limit.
func within(t testing.TB, limit time.Duration, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > limit {
		t.Errorf("%s took %v, more than %v", what, took, limit)
	}
}
