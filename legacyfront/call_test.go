package legacyfront_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// asks asks twice, the second time two things at once.
func asks(c *mcptest.Call) (wire.Raw, *wire.Error) {
	first, err := c.Ask(mcptest.Elicit("name", "Who?"))
	if err != nil {
		return nil, err
	}
	second, err := c.Ask(mcptest.Elicit("a", "A?"), mcptest.Elicit("b", "B?"))
	if err != nil {
		return nil, err
	}
	return mcptest.Text(string(first["name"]) + string(second["a"]) + string(second["b"])), nil
}

// steps tells of its progress until it is let go on.
func steps(goOn <-chan struct{}) mcptest.Func {
	return func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		c.Progress(1, 2, "one")
		select {
		case <-goOn:
			return mcptest.Text("done"), nil
		case <-c.Cancelled():
			return mcptest.Text("stopped"), nil
		}
	}
}

// A question goes out on the stream of its call as this era has it, whatever is
// behind, and is answered at any replica. There is never a task, though the client
// declared that extension and policy would make one at once.
func TestQuestionsAreAnsweredAtAnotherReplica(t *testing.T) {
	for era, server := range map[string]func(...mcptest.Tool) *mcptest.Upstream{"legacy": mcptest.NewLegacy, "modern": mcptest.NewModern} {
		t.Run(era, func(t *testing.T) {
			up := server(mcptest.Tool{Name: "asks", Run: asks})
			up.RequestState = true
			a, b := replicas(t, up)
			c := open(t, a, "2025-06-18", everything)
			r := c.call(a, "asks")
			for i, value := range []string{"Ann", "x", "y"} {
				q := r.until(wire.MethodElicit)
				if !strings.Contains(string(q.Params), "requestedSchema") {
					t.Errorf("question: %s", q.Bytes())
				}
				c.answer([]string{b, a, b}[i], q, "result", `{"action":"accept","content":{"v":"`+value+`"}}`)
			}
			got := string(r.result().Bytes())
			for _, value := range []string{"Ann", "x", "y"} {
				if !strings.Contains(got, value) {
					t.Errorf("result %s has no %q", got, value)
				}
			}
			for _, modern := range []string{"resultType", "taskId", "serverInfo"} {
				if strings.Contains(got, modern) {
					t.Errorf("result has a %s: %s", modern, got)
				}
			}
		})
	}
}

func TestQuestionThatTheClientFailsToAnswer(t *testing.T) {
	stopped := make(chan struct{})
	up := mcptest.NewLegacy(mcptest.Tool{Name: "asks", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		answers, err := c.Ask(mcptest.Elicit("name", "Who?"))
		return mcptest.Text(string(answers["name"])), err
	}}, mcptest.Tool{Name: "samples", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		_, err := c.Ask(mcptest.Question{Key: "s", Method: wire.MethodSampling, Params: wire.Raw(`{"messages":[],"maxTokens":1}`)})
		<-c.Cancelled()
		close(stopped)
		return nil, err
	}})
	a := gateway(t, up.Start(t), "memory")
	c := open(t, a, "2025-06-18", everything)

	r := c.call(a, "asks")
	c.answer(a, r.until(wire.MethodElicit), "error", `{"code":-1,"message":"no window"}`)
	if got := string(r.result().Bytes()); !strings.Contains(got, "cancel") {
		t.Errorf("the tool was told: %s", got)
	}

	r = c.call(a, "samples")
	c.answer(a, r.until(wire.MethodSampling), "error", `{"code":-1,"message":"user rejected sampling"}`)
	if e := r.error(); !strings.Contains(e.Message, "user rejected sampling") {
		t.Errorf("error: %v", e)
	}
	wait(t, "the upstream is told to stop", stopped)
}

func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(deadline):
		t.Fatalf("not so: %s", what)
	}
}

func TestCancelAtAnotherReplica(t *testing.T) {
	for name, cancel := range map[string]func(c *client, url string){
		"by notification": func(c *client, url string) {
			c.accepted(url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
		},
		"by the end of the session": func(c *client, url string) {
			check(c.t, "DELETE", c.do(http.MethodDelete, url, "").StatusCode, http.StatusNoContent)
		},
	} {
		t.Run(name, func(t *testing.T) {
			stopped := make(chan struct{})
			a, b := replicas(t, mcptest.NewLegacy(mcptest.Tool{Name: "long", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
				c.Progress(1, 2, "begun")
				<-c.Cancelled()
				close(stopped)
				return mcptest.Text("stopped"), nil
			}}))
			c := open(t, a, "2025-11-25", `{}`)
			r := c.call(a, "long")
			r.until("notifications/progress")
			cancel(c, b)
			wait(t, "the upstream is told to stop", stopped)
			for _, more := r.next(); more; _, more = r.next() { // the stream ends
			}
		})
	}
}

// A lost connection does not end a call, and what was said meanwhile is said
// again, at any replica.
func TestResultOfALostStreamIsFetched(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			goOn := make(chan struct{})
			a, b := replicas(t, mcptest.NewLegacy(mcptest.Tool{Name: "steps", Run: steps(goOn)}))
			c := open(t, a, version, `{}`)
			lost := c.call(a, "steps")
			progress := lost.until("notifications/progress")
			check(t, "progress", string(progress.Params), `{"progress":1,"total":2,"message":"one","progressToken":"p"}`)
			lost.Body.Close()

			back := c.do(http.MethodGet, b, "", wire.HeaderLastEvent, lost.lastID)
			close(goOn)
			msg := back.until("")
			check(t, "id", string(msg.ID), "1")
			check(t, "result", string(msg.Result), `{"content":[{"text":"done","type":"text"}]}`)
			if _, more := back.next(); more {
				t.Error("the stream goes on after the answer")
			}
			again := c.do(http.MethodGet, a, "", wire.HeaderLastEvent, lost.lastID)
			check(t, "again", string(again.until("").Bytes()), string(msg.Bytes()))
			done := c.do(http.MethodGet, a, "", wire.HeaderLastEvent, again.lastID)
			if msg, more := done.next(); more {
				t.Errorf("what the client has is said again: %s", msg.Bytes())
			}
		})
	}
}

func TestLostStreamOfAnotherSessionIsNotTold(t *testing.T) {
	a := gateway(t, mcptest.NewLegacy(mcptest.Tool{Name: "asks", Run: asks}).Start(t), "memory")
	mine, other := open(t, a, "2025-06-18", everything), open(t, a, "2025-06-18", everything)
	r := mine.call(a, "asks")
	q := r.until(wire.MethodElicit)
	check(t, "the stream", other.do(http.MethodGet, a, "", wire.HeaderLastEvent, r.lastID).StatusCode, http.StatusBadRequest)
	check(t, "the question", other.post(a, `{"jsonrpc":"2.0","id":`+string(q.ID)+`,"result":{"action":"accept"}}`).StatusCode, http.StatusBadRequest)
}

// Some older clients take the empty event for a broken message.
func TestStreamsBeginWithAnIDWhereThatIsKnown(t *testing.T) {
	goOn := make(chan struct{})
	close(goOn)
	a := gateway(t, mcptest.NewLegacy(mcptest.Tool{Name: "steps", Run: steps(goOn)}).Start(t), "memory")
	for version, primed := range map[string]bool{"2025-03-26": false, "2025-06-18": false, "2025-11-25": true} {
		first := <-open(t, a, version, `{}`).call(a, "steps").events
		check(t, version, first.Data == nil && first.ID != "", primed)
	}
}

func TestLogMessagesAreOfTheLevelOfTheSession(t *testing.T) {
	up := mcptest.NewLegacy(mcptest.Tool{Name: "logs", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		for _, level := range wire.LogLevels {
			c.Notify("notifications/message", wire.Raw(`{"level":"`+level+`","data":"x"}`))
		}
		return mcptest.Text("logged"), nil
	}})
	a, b := replicas(t, up)
	c := open(t, a, "2025-06-18", `{}`)
	first := func() string {
		return wire.LogLevel(c.call(a, "logs").until("notifications/message").Params)
	}
	check(t, "before a level is set", first(), "info")
	check(t, "setLevel", string(c.request(b, "logging/setLevel", `{"level":"error"}`).result().Bytes()), `{}`)
	check(t, "afterwards", first(), "error")
}
