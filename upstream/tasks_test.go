package upstream

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// eras runs a test against an upstream of each era that makes its own tasks.
func eras(t *testing.T, run mcptest.Func, test func(t *testing.T, u *mcptest.Upstream, h *Connector)) {
	for era, newUpstream := range map[Era]func(...mcptest.Tool) *mcptest.Upstream{Legacy: mcptest.NewLegacy, Modern: mcptest.NewModern} {
		t.Run(string(era), func(t *testing.T) {
			u := newUpstream(mcptest.Tool{Name: "research", Task: true, Run: run})
			u.Capabilities = wire.Raw(`{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`)
			test(t, u, connect(t, Options{URL: u.Start(t), Retry: 10 * time.Millisecond}))
		})
	}
}

func text(t *testing.T, reply Reply) string {
	t.Helper()
	o, err := wire.ParseObject(reply.Result)
	if err != nil {
		t.Fatalf("result %s, error %s", reply.Result, reply.Error)
	}
	list, _ := wire.ParseArray(o.Get("content"))
	first, _ := wire.ParseObject(list[0])
	s, _ := wire.String(first.Get("text"))
	return s
}

func TestTasksOfUpstreamsAreFollowed(t *testing.T) {
	run := func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		c.Progress(1, 0, "Gathering sources")
		c.Sleep(100 * time.Millisecond)
		c.Progress(2, 0, "Writing it down")
		c.Sleep(100 * time.Millisecond)
		return mcptest.Text("42"), nil
	}
	eras(t, run, func(t *testing.T, u *mcptest.Upstream, h *Connector) {
		for id := range uint64(2) {
			rec := &recorder{}
			r := toolCall(id+1, "research", `{"key":"k"}`)
			r.Capabilities = wire.ParseCapabilities(nil) // what the client declares has nothing to do with it
			reply, err := h.Call(t.Context(), r, rec)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "result", text(t, reply), "42")
			progress, notes, _ := rec.seen()
			equal(t, "progress", progress, `{"progress":1,"message":"Gathering sources"}`, `{"progress":2,"message":"Writing it down"}`)
			if len(notes) == 0 {
				t.Error("no sign of life between the messages")
			}
		}
		check(t, "runs", len(u.Calls("research", "k")), 2)
		check(t, "tasks", u.Tasks(), 2)
	})
}

func TestTasksOfUpstreamsAsk(t *testing.T) {
	run := func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		answers, err := c.Ask(mcptest.Elicit("city", "Which city?"), mcptest.Elicit("year", "Which year?"))
		if err != nil {
			return nil, err
		}
		more, err := c.Ask(mcptest.Elicit("sure", "Sure?"))
		if err != nil {
			return nil, err
		}
		return mcptest.Text(string(answers["city"]) + string(answers["year"]) + string(more["sure"])), nil
	}
	eras(t, run, func(t *testing.T, u *mcptest.Upstream, h *Connector) {
		rec := &recorder{ask: func(_ context.Context, _ string, params wire.Raw) (wire.Raw, *wire.Error) {
			for _, word := range []string{"city", "year", "Sure"} {
				if strings.Contains(string(params), "Which "+word) || strings.Contains(string(params), word+"?") {
					return wire.Quote(word), nil
				}
			}
			return nil, wire.Errorf(wire.CodeInternal, "unknown question")
		}}
		reply, err := h.Call(t.Context(), toolCall(1, "research", `{}`), rec)
		if err != nil {
			t.Fatal(err)
		}
		check(t, "answers", text(t, reply), `"city""year""Sure"`)
		_, _, asked := rec.seen()
		check(t, "questions", len(asked), 3)
	})
}

func TestTasksOfUpstreamsFail(t *testing.T) {
	run := func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		c.Sleep(50 * time.Millisecond)
		return nil, wire.Errorf(-32055, "no sources").WithData(map[string]int{"n": 7})
	}
	eras(t, run, func(t *testing.T, u *mcptest.Upstream, h *Connector) {
		reply, err := h.Call(t.Context(), toolCall(1, "research", `{}`), &recorder{})
		if err != nil {
			t.Fatal(err)
		}
		check(t, "error", string(reply.Error), `{"code":-32055,"message":"no sources","data":{"n":7}}`)
	})
}

// hang runs until it is cancelled.
func hang(c *mcptest.Call) (wire.Raw, *wire.Error) {
	<-c.Cancelled()
	return mcptest.Text("cancelled"), nil
}

func TestTasksOfUpstreamsAreCancelled(t *testing.T) {
	eras(t, hang, func(t *testing.T, u *mcptest.Upstream, h *Connector) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := h.Call(ctx, toolCall(1, "research", `{"key":"k"}`), &recorder{})
			done <- err
		}()
		eventually(t, "the task is looked at", func() bool { return len(u.Requests("tasks/get")) > 1 })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error: %v", err)
		}
		check(t, "cancelled", u.Calls("research", "k")[0].Cancelled, true)
		for _, r := range u.Requests("tasks/cancel") {
			if name := r.Header.Get(wire.HeaderName); name != "their-1" && r.Header.Get(wire.HeaderMethod) != "" {
				t.Errorf("Mcp-Name is %q", name)
			}
		}
		check(t, "cancel requests", len(u.Requests("tasks/cancel")), 1)
		check(t, "cancel notifications", len(u.Requests("notifications/cancelled")), 0)
	})
}

func TestATaskThatIsCancelledThere(t *testing.T) {
	eras(t, hang, func(t *testing.T, u *mcptest.Upstream, h *Connector) {
		u.Handle("tasks/get", func(wire.Object) (wire.Raw, *wire.Error) {
			return wire.Raw(`{"taskId":"their-1","status":"cancelled","statusMessage":"budget is spent"}`), nil
		})
		reply, err := h.Call(t.Context(), toolCall(1, "research", `{}`), &recorder{})
		if err != nil {
			t.Fatal(err)
		}
		check(t, "error", string(reply.Error),
			`{"code":-32603,"message":"The upstream has cancelled the call: budget is spent","data":{"reason":"upstream_cancelled"}}`)
	})
}

func TestATaskThatIsForgottenThere(t *testing.T) {
	eras(t, hang, func(t *testing.T, u *mcptest.Upstream, h *Connector) {
		u.Handle("tasks/get", func(wire.Object) (wire.Raw, *wire.Error) {
			return nil, wire.Errorf(wire.CodeInvalidParams, "Task not found")
		})
		_, err := h.Call(t.Context(), toolCall(1, "research", `{"key":"k"}`), &recorder{})
		if !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("error: %v", err)
		}
		check(t, "runs", len(u.Calls("research", "k")), 1)
	})
}

func TestAnUpstreamOutOfReachDoesNotLoseItsTask(t *testing.T) {
	run := func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		c.Sleep(300 * time.Millisecond)
		return mcptest.Text("done"), nil
	}
	eras(t, run, func(t *testing.T, u *mcptest.Upstream, h *Connector) {
		u.Fail("tasks/get", 2, mcptest.Drop)
		u.Fail("tasks/get", 2, mcptest.Respond(http.StatusBadGateway, "text/plain", "down"))
		u.Fail("tasks/result", 1, mcptest.Drop)
		reply, err := h.Call(t.Context(), toolCall(1, "research", `{"key":"k"}`), &recorder{})
		if err != nil {
			t.Fatal(err)
		}
		check(t, "result", text(t, reply), "done")
		check(t, "runs", len(u.Calls("research", "k")), 1)
	})
}

func TestASessionLostWhileItsTaskRunsIsNoReasonToRunAgain(t *testing.T) {
	u := mcptest.NewLegacy(mcptest.Tool{Name: "research", Task: true, Run: hang})
	u.Capabilities = wire.Raw(`{"tasks":{"requests":{"tools":{"call":{}}}}}`)
	h := connect(t, Options{URL: u.Start(t), Retry: 10 * time.Millisecond})
	done := make(chan error, 1)
	go func() {
		_, err := h.Call(t.Context(), toolCall(1, "research", `{"key":"k"}`), &recorder{})
		done <- err
	}()
	eventually(t, "the task is looked at", func() bool { return len(u.Requests("tasks/get")) > 1 })
	u.LoseSessions()
	if err := <-done; !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("error: %v", err)
	}
	check(t, "runs", len(u.Calls("research", "k")), 1)
}

func TestAQuestionThatTheClientCannotAnswerEndsAModernTask(t *testing.T) {
	u := mcptest.NewModern(mcptest.Tool{Name: "research", Task: true, Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		_, err := c.Ask(mcptest.Elicit("city", "Which city?"))
		return mcptest.Text("?"), err
	}})
	h := connect(t, Options{URL: u.Start(t), Retry: 10 * time.Millisecond})
	r := toolCall(1, "research", `{"key":"k"}`)
	r.Capabilities = wire.ParseCapabilities(nil)
	reply, err := h.Call(t.Context(), r, &recorder{})
	if err != nil || wire.ParseError(reply.Error).Code != wire.CodeMissingCapability {
		t.Errorf("error %s, %v", reply.Error, err)
	}
	eventually(t, "it is cancelled", func() bool { return u.Calls("research", "k")[0].Cancelled })
}

func TestOnlyToolCallsBecomeTasks(t *testing.T) {
	u := mcptest.NewModern()
	u.Handle("prompts/get", func(wire.Object) (wire.Raw, *wire.Error) {
		return wire.Raw(`{"resultType":"task","taskId":"x","status":"working"}`), nil
	})
	h := connect(t, Options{URL: u.Start(t)})
	r := toolCall(1, "x", `{}`)
	r.Method = "prompts/get"
	if _, err := h.Call(t.Context(), r, &recorder{}); !isKind(err, Broken) {
		t.Errorf("error: %v", err)
	}
}

func TestServersWithoutTasksAreNotAskedForTheirTools(t *testing.T) {
	u := mcptest.NewLegacy(mcptest.Tool{Name: "greet", Run: func(*mcptest.Call) (wire.Raw, *wire.Error) { return mcptest.Text("hi"), nil }})
	h := connect(t, Options{URL: u.Start(t)})
	if _, err := h.Call(t.Context(), toolCall(1, "greet", `{}`), &recorder{}); err != nil {
		t.Fatal(err)
	}
	check(t, "tools/list", len(u.Requests("tools/list")), 0)
}
