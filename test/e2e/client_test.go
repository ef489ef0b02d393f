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

// result is the result as an object; the test fails when there is none.
func (a answer) result(t testing.TB) wire.Object {
	t.Helper()
	if a.message.Result == nil {
		t.Fatalf("no result in the answer with status %d: %s", a.status, a.body)
	}
	o, err := wire.ParseObject(a.message.Result)
	if err != nil {
		t.Fatalf("result: %v", err)
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
func (c caller) request(t testing.TB, method string, params wire.Object) (body []byte, header http.Header) {
	t.Helper()
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

// try sends a well-formed request; an error means that there was no answer.
func (c caller) try(ctx context.Context, t testing.TB, method string, params wire.Object) (answer, error) {
	t.Helper()
	body, header := c.request(t, method, params)
	return post(ctx, c.url, body, header)
}

// send is try for a test that cannot go on without an answer.
func (c caller) send(t testing.TB, method string, params wire.Object) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := c.try(ctx, t, method, params)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
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

// toolCall is the params of tools/call. arguments must marshal.
func toolCall(t testing.TB, tool string, arguments any) wire.Object {
	t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	return wire.Object{}.With("name", wire.Quote(tool)).With("arguments", raw)
}

func taskParams(id string) wire.Object {
	return wire.Object{}.With("taskId", wire.Quote(id))
}

// start calls a tool, which must make a task, and returns its id.
func (c caller) start(t testing.TB, tool string, arguments any) string {
	t.Helper()
	r := c.send(t, "tools/call", toolCall(t, tool, arguments)).result(t)
	if kind, _ := wire.String(r.Get("resultType")); kind != wire.ResultTask {
		t.Fatalf("%s made no task: %s", tool, r.Bytes())
	}
	id, _ := wire.String(r.Get("taskId"))
	return id
}

// wait polls the task until it has the status, and returns it. A task that ends
// in another way fails the test.
func (c caller) wait(t testing.TB, id, status string) wire.Object {
	t.Helper()
	var task wire.Object
	Eventually(t, "task is "+status, func() bool {
		task = c.send(t, "tasks/get", taskParams(id)).result(t)
		now, _ := wire.String(task.Get("status"))
		if now != status && ended(now) {
			t.Fatalf("task is %s, not %s: %s", now, status, task.Bytes())
		}
		return now == status
	})
	return task
}

func ended(status string) bool {
	return status == wire.StatusCompleted || status == wire.StatusFailed || status == wire.StatusCancelled
}

// reply answers every pending question of the task with the same result.
func (c caller) reply(t testing.TB, id string, task wire.Object, result wire.Raw) {
	t.Helper()
	asked, err := wire.ParseObject(task.Get("inputRequests"))
	if err != nil {
		t.Fatalf("inputRequests: %v", err)
	}
	var answers wire.Object
	for _, q := range asked {
		answers = answers.With(q.Name, result)
	}
	ack := c.send(t, "tasks/update", taskParams(id).With("inputResponses", answers.Bytes())).result(t)
	if kind, _ := wire.String(ack.Get("resultType")); kind != wire.ResultComplete {
		t.Fatalf("tasks/update: %s", ack.Bytes())
	}
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
