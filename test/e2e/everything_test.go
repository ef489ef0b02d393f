package e2e

import (
	"strings"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// promoteSoon makes calls of half a second slow ones, to keep tests short.
const promoteSoon = "defaults: {promoteAfter: 500ms, pollInterval: 200ms}\n"

const longTool = "trigger-long-running-operation"

func lasting(duration, steps float64) arguments {
	return arguments{"duration": duration, "steps": steps}
}

func TestSlowToolOfALegacyServerBecomesATask(t *testing.T) {
	server := mcptest.Everything(t, "streamableHttp")
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, Start(t, Options{Upstream: server.URL, Policy: promoteSoon, Store: store(t)}).Endpoint)
			id := c.start(t, longTool, lasting(2, 4))
			task := c.wait(t, id, wire.StatusCompleted)
			if got, want := text(t, task.Get("result")), "Long running operation completed. Duration: 2 seconds, Steps: 4."; got != want {
				t.Errorf("result: %q, want %q", got, want)
			}
			nested, err := wire.ParseObject(task.Get("result"))
			if err != nil {
				t.Fatal(err)
			}
			if kind, _ := wire.String(nested.Get("resultType")); kind != wire.ResultComplete {
				t.Errorf("the result inside the task has resultType %q; strict clients want %q", kind, wire.ResultComplete)
			}
		})
	}
}

func TestQuickToolStaysSynchronous(t *testing.T) {
	c := newClient(t, Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL}).Endpoint)
	r := resultOf(t, c.call(t, "echo", arguments{"message": "hello"}))
	if got := text(t, r.Bytes()); got != "Echo: hello" {
		t.Errorf("result: %q", got)
	}
	if r.Get("taskId") != nil {
		t.Errorf("a quick call made a task: %s", r.Bytes())
	}
}

func TestSlowToolIsHeldForClientsWithoutTasks(t *testing.T) {
	c := newClient(t, Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon}).Endpoint)
	r := resultOf(t, c.call(t, longTool, lasting(2, 2), mcptest.WithCapabilities(mcptest.NoCapabilities)))
	if got := text(t, r.Bytes()); !strings.HasPrefix(got, "Long running operation completed") {
		t.Errorf("result: %q", got)
	}
}

func TestQuestionIsAnsweredByUpdate(t *testing.T) {
	for _, q := range []struct {
		tool, method string
		arguments    arguments
		answer       wire.Raw
		want         string
	}{
		{"trigger-elicitation-request", wire.MethodElicit, arguments{},
			mcptest.Accept(`{"name":"Ann","check":true}`), "User provided the requested information"},
		{"trigger-sampling-request", wire.MethodSampling, arguments{"prompt": "say something", "maxTokens": 20},
			wire.Raw(`{"role":"assistant","model":"none","content":{"type":"text","text":"a sampled answer"}}`), "a sampled answer"},
	} {
		t.Run(q.tool, func(t *testing.T) {
			c := newClient(t, Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon}).Endpoint)
			id := c.start(t, q.tool, q.arguments)
			task := c.wait(t, id, wire.StatusInputRequired)
			asked, err := wire.ParseObject(task.Get("inputRequests"))
			if err != nil || len(asked) != 1 {
				t.Fatalf("inputRequests: %s (%v)", task.Get("inputRequests"), err)
			}
			if !strings.Contains(string(asked[0].Value), q.method) {
				t.Errorf("asked %s, want %s", asked[0].Value, q.method)
			}
			if err := c.respond(t.Context(), id, task, q.answer); err != nil {
				t.Fatal(err)
			}
			task = c.wait(t, id, wire.StatusCompleted)
			if got := text(t, task.Get("result")); !strings.Contains(got, q.want) {
				t.Errorf("result %q does not contain %q", got, q.want)
			}
		})
	}
}

// server-everything never answers a call that was cancelled.
func TestEverythingNeverAnswersACancelledCall(t *testing.T) {
	c := newClient(t, Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon}).Endpoint)
	id := c.start(t, longTool, lasting(600, 600))
	within(t, 15*time.Second, "cancelling", func() {
		ack := resultOf(t, c.send(t, "tasks/cancel", taskParams(id)))
		if ack.Get("taskId") != nil || ack.Get("status") != nil {
			t.Errorf("the acknowledgement is not empty: %s", ack.Bytes())
		}
		c.wait(t, id, wire.StatusCancelled)
	})
	resultOf(t, c.send(t, "tasks/cancel", taskParams(id))) // again: acknowledged as well
	c.wait(t, id, wire.StatusCancelled)
}

func TestLostSessionIsRegained(t *testing.T) {
	server := mcptest.Everything(t, "streamableHttp")
	c := newClient(t, Start(t, Options{Upstream: server.URL, Policy: promoteSoon}).Endpoint)
	echo := func() string {
		held := mcptest.WithCapabilities(mcptest.NoCapabilities) // opening a session may take a while
		return text(t, resultOf(t, c.call(t, "echo", arguments{"message": "hello"}, held)).Bytes())
	}
	if got := echo(); got != "Echo: hello" {
		t.Fatalf("result before: %q", got)
	}
	running := c.start(t, longTool, lasting(600, 600))

	server.Kill()
	server.Start()

	if got := echo(); got != "Echo: hello" {
		t.Errorf("result in the new session: %q", got)
	}
	task := c.wait(t, running, wire.StatusFailed)
	if !strings.Contains(string(task.Get("error")), "unknown") {
		t.Errorf("the error does not say that the outcome is unknown: %s", task.Get("error"))
	}
}
