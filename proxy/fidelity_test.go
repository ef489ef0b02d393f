package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/policy"
	"taskgate/upstream"
	"taskgate/wire"
)

// Whatever an upstream answers comes out as it went in, in each way in which an
// answer can come out; resultType is all that is added.
func TestAnswersComeOutAsTheyWentIn(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	w := mcptest.NewWriter(seed)
	const rounds = 150
	for way, through := range map[string]func(*gateway, *mcptest.Client, string) wire.Raw{
		"at once": atOnce, "as an event": asEvent, "task": asTask, "held": held,
	} {
		t.Run(way, func(t *testing.T) {
			g := newGateway(t)
			c := g.client("ann")
			for range rounds {
				want := w.Result()
				got := string(through(g, c, want))
				if got != strings.TrimSuffix(want, "}")+`,"resultType":"complete"}` {
					t.Fatalf("seed %d: sent\n%s\ngot\n%s", seed, want, got)
				}
			}
		})
	}
}

// However long an answer is, its length is announced.
func TestAnswersHaveALength(t *testing.T) {
	for _, length := range []int{0, 900, 1000, 2000, 2048, 5000, 100_000} {
		g := newGateway(t)
		g.up.call = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
			return result(`{"content":"` + strings.Repeat("x", length) + `"}`), nil
		}
		reply := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`))
		check(t, "Content-Length", reply.Header.Get("Content-Length"), fmt.Sprint(len(reply.Body)))
	}
}

func atOnce(g *gateway, c *mcptest.Client, want string) wire.Raw {
	g.up.call = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
		return result(want), nil
	}
	return g.ok(c.CallTool(g.t.Context(), "tool", `{}`)).Message.Result
}

func asEvent(g *gateway, c *mcptest.Client, want string) wire.Raw {
	g.up.call = func(_ context.Context, _ upstream.Request, h upstream.Handler) (upstream.Reply, error) {
		h.Progress(nil)
		return result(want), nil
	}
	return g.ok(c.CallTool(g.t.Context(), "tool", `{}`, mcptest.WithProgress(wire.Raw(`1`)))).Message.Result
}

func asTask(g *gateway, c *mcptest.Client, want string) wire.Raw {
	g.opts.Decide = func(policy.Query) policy.Decision {
		return policy.Decision{Task: policy.Required, TTL: time.Hour, Input: policy.InputTask, MaxAttempts: 1}
	}
	atOnceReply := g.up
	atOnceReply.call = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
		return result(want), nil
	}
	id := g.ok(c.CallTool(g.t.Context(), "tool", `{}`)).TaskID()
	task, err := c.WaitTask(g.t.Context(), id, "completed")
	if err != nil {
		g.t.Fatal(err)
	}
	return task.Get("result")
}

func held(g *gateway, c *mcptest.Client, want string) wire.Raw {
	g.opts.Decide = func(policy.Query) policy.Decision {
		return policy.Decision{Task: policy.Optional, PromoteAfter: time.Minute, TTL: time.Hour, Input: policy.InputMRTR, MaxAttempts: 1}
	}
	g.up.call = func(ctx context.Context, _ upstream.Request, h upstream.Handler) (upstream.Reply, error) {
		if _, failure := h.Ask(ctx, upstream.Question{Method: wire.MethodElicit, Params: wire.Raw(`{}`)}); failure != nil {
			return upstream.Reply{}, failure
		}
		return result(want), nil
	}
	first := g.ok(c.CallTool(g.t.Context(), "tool", `{}`))
	state := first.Result().Get("requestState")
	if state == nil {
		g.t.Fatalf("no question: %s", first.Body)
	}
	return g.ok(c.Call(g.t.Context(), "tools/call",
		wire.Object{}.With("name", wire.Raw(`"tool"`)).With("arguments", wire.Raw(`{}`)).
			With("inputResponses", wire.Raw(`{"q1":{"action":"accept"}}`)).With("requestState", state).Bytes())).Message.Result
}

func TestErrorsComeOutAsTheyWentIn(t *testing.T) {
	const failure = `{"data":{"n":9007199254740993,"z":[1.0]},"message":"no \u00e9","code":-32050,"extra":{"b":1,"a":2}}`
	g := newGateway(t, func(s *setup) {
		s.up.call = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
			return upstream.Reply{Error: wire.Raw(failure)}, nil
		}
	})
	c := g.client("ann")
	r := g.ok(c.CallTool(t.Context(), "tool", `{}`))
	check(t, "status", r.Status, 200)
	check(t, "error", string(r.Message.Error), failure)
	r = g.ok(c.Call(t.Context(), "prompts/get", wire.Raw(`{"name":"p"}`)))
	check(t, "error", string(r.Message.Error), failure)
	g.opts.Decide = func(policy.Query) policy.Decision { return policy.Decision{Task: policy.Required, MaxAttempts: 1} }
	id := g.ok(c.CallTool(t.Context(), "tool", `{}`)).TaskID()
	task, err := c.WaitTask(t.Context(), id, "failed")
	if err != nil {
		t.Fatal(err)
	}
	check(t, "error of the task", string(task.Get("error")), failure)
	check(t, "status message", string(task.Get("statusMessage")), `"no é"`)
}

func TestArgumentsReachTheUpstreamAsTheyWere(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	w := mcptest.NewWriter(seed)
	g := newGateway(t)
	c := g.client("ann")
	for i := range 150 {
		arguments, extra := w.Object(4), w.Value(3)
		params := fmt.Sprintf(`{"name":"tool","unknown":%s,"task":{"ttl":1},"arguments":%s,"_meta":{"mine":%s}}`, extra, arguments, extra)
		g.ok(c.Call(t.Context(), "tools/call", wire.Raw(params)))
		got := g.up.got()[i].Params
		meta, _ := got.Object("_meta")
		for what, pair := range map[string][2]string{
			"arguments": {string(got.Get("arguments")), arguments}, "unknown": {string(got.Get("unknown")), extra},
			"_meta.mine": {string(meta.Get("mine")), extra}, "task": {string(got.Get("task")), ""},
		} {
			if pair[0] != pair[1] {
				t.Fatalf("seed %d: %s: sent\n%s\ngot\n%s", seed, what, pair[1], pair[0])
			}
		}
	}
}

// A legacy result gets what a modern client wants, and loses what it must not see.
func TestLegacyResultsBecomeModern(t *testing.T) {
	for method, c := range map[string]struct{ params, sent, want string }{
		"tools/call": {`{"name":"t"}`, `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"},"k":1}}`,
			`{"_meta":{"k":1},"resultType":"complete","content":[]}`},
		"prompts/list":             {`{}`, `{"prompts":[],"nextCursor":"c"}`, `{"prompts":[],"nextCursor":"c","resultType":"complete","ttlMs":0,"cacheScope":"private"}`},
		"resources/read":           {`{"uri":"a:b"}`, `{"contents":[],"ttlMs":5,"cacheScope":"public"}`, `{"contents":[],"ttlMs":5,"cacheScope":"public","resultType":"complete"}`},
		"resources/templates/list": {`{}`, `{"resourceTemplates":[]}`, `{"resourceTemplates":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`},
		"completion/complete":      {`{}`, `{"completion":{"values":[]}}`, `{"completion":{"values":[]},"resultType":"complete"}`},
	} {
		g := newGateway(t, func(s *setup) {
			s.up.call = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
				return result(c.sent), nil
			}
		})
		r := g.ok(g.client("ann").Call(t.Context(), method, wire.Raw(c.params)))
		check(t, method, string(r.Message.Result), c.want)
	}
}

func TestUnknownResourceHasTheModernCode(t *testing.T) {
	g := newGateway(t, func(s *setup) {
		s.up.call = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
			return upstream.Reply{Error: wire.Raw(`{"code":-32002,"message":"Resource not found","data":{"uri":"a:b"}}`)}, nil
		}
	})
	r := g.ok(g.client("ann").Call(t.Context(), "resources/read", wire.Raw(`{"uri":"a:b"}`)))
	check(t, "error", string(r.Message.Error), `{"code":-32602,"message":"Resource not found","data":{"uri":"a:b"}}`)
}
