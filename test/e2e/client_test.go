package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// client is the test kit's client with what these tests do again and again.
// Methods that take a t end the test when they fail; the others say so.
type client struct{ *mcptest.Client }

// newClient returns a client that declares tasks and can answer any question.
func newClient(t testing.TB, url string) client {
	t.Helper()
	c := mcptest.NewClient(url, mcptest.TasksAndInput)
	t.Cleanup(c.Close)
	return client{c}
}

// arguments of a tool.
type arguments map[string]any

func (a arguments) json() string {
	raw, err := json.Marshal(a)
	if err != nil {
		panic(err) // a test has arguments that are no JSON
	}
	return string(raw)
}

// send sends one request and returns the answer, which may be an error.
func (c client) send(t testing.TB, method string, params wire.Object, options ...mcptest.Option) mcptest.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reply, err := c.Call(ctx, method, params.Bytes(), options...)
	if err != nil {
		t.Fatalf("%v; status %d, body %s", err, reply.Status, reply.Body)
	}
	return reply
}

// call calls a tool and returns the answer, which may be an error.
func (c client) call(t testing.TB, tool string, args arguments, options ...mcptest.Option) mcptest.Reply {
	t.Helper()
	return c.send(t, "tools/call", toolCall(tool, args), options...)
}

func toolCall(tool string, args arguments) wire.Object {
	return wire.Object{}.With("name", wire.Quote(tool)).With("arguments", wire.Raw(args.json()))
}

func taskParams(id string) wire.Object {
	return wire.Object{}.With("taskId", wire.Quote(id))
}

// begin calls a tool, which must make a task, and returns its id.
func (c client) begin(ctx context.Context, tool string, args arguments, options ...mcptest.Option) (string, error) {
	reply, err := c.CallTool(ctx, tool, args.json(), options...)
	if err != nil {
		return "", err
	}
	if reply.Type() != wire.ResultTask || reply.TaskID() == "" {
		return "", fmt.Errorf("%s made no task: %s", tool, reply.Body)
	}
	return reply.TaskID(), nil
}

// start is begin for a test that cannot go on without the task.
func (c client) start(t testing.TB, tool string, args arguments) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	id, err := c.begin(ctx, tool, args)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// errTooFast: the task was polled faster than the gateway allows; it is unharmed.
var errTooFast = errors.New("polled too fast")

// look reads a task.
func (c client) look(ctx context.Context, id string) (task wire.Object, status string, err error) {
	reply, err := c.Task(ctx, id)
	if err != nil {
		return nil, "", err
	}
	if reply.Status == http.StatusTooManyRequests {
		return nil, "", fmt.Errorf("tasks/get: %w", errTooFast)
	}
	if reply.Message.Result == nil {
		return nil, "", fmt.Errorf("tasks/get: status %d, %s", reply.Status, reply.Body)
	}
	task = reply.Result()
	status, _ = wire.String(task.Get("status"))
	return task, status, nil
}

// wait waits until a task has the status, and returns it.
func (c client) wait(t testing.TB, id, status string) wire.Object {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	task, err := c.WaitTask(ctx, id, status)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func ended(status string) bool {
	return status == wire.StatusCompleted || status == wire.StatusFailed || status == wire.StatusCancelled
}

// respond answers every pending question of a task with the same result.
func (c client) respond(ctx context.Context, id string, task wire.Object, result wire.Raw) error {
	asked, err := wire.ParseObject(task.Get("inputRequests"))
	if err != nil {
		return fmt.Errorf("inputRequests: %w", err)
	}
	var answers wire.Object
	for _, q := range asked {
		answers = answers.With(q.Name, result)
	}
	reply, err := c.Update(ctx, id, answers)
	if err != nil {
		return err
	}
	if reply.Type() != wire.ResultComplete {
		return fmt.Errorf("tasks/update: status %d, %s", reply.Status, reply.Body)
	}
	return nil
}

// resultOf is the result of an answer that must have one.
func resultOf(t testing.TB, reply mcptest.Reply) wire.Object {
	t.Helper()
	if reply.Message.Result == nil {
		t.Fatalf("no result; status %d, body %s", reply.Status, reply.Body)
	}
	return reply.Result()
}

// errorOf is the JSON-RPC error of an answer that must have one.
func errorOf(t testing.TB, reply mcptest.Reply) *wire.Error {
	t.Helper()
	if reply.Err() == nil {
		t.Fatalf("no error; status %d, body %s", reply.Status, reply.Body)
	}
	return reply.Err()
}

// text is the first text of a tool's result.
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
