package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/policy"
	"taskgate/upstream"
	"taskgate/wire"
)

// inBubble gives the gateway and its clients a clock of their own, and a
// network in memory.
func inBubble(t *testing.T, test func(*testing.T, *gateway), adjust ...func(*setup)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newGateway(t, append(adjust, func(s *setup) { s.pipes = true })...))
	})
}

func forbidden(s *setup) { s.decision.Task = policy.Forbidden }

// takes is an upstream that answers after d.
func takes(d time.Duration, result upstream.Reply) func(*setup) {
	return func(s *setup) {
		s.up.call = func(ctx context.Context, _ upstream.Request, _ upstream.Handler) (upstream.Reply, error) {
			select {
			case <-time.After(d):
				return result, nil
			case <-ctx.Done():
				return upstream.Reply{}, ctx.Err()
			}
		}
	}
}

func TestQuickAnswerIsJSON(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`))
		check(t, "content type", r.Header.Get("Content-Type"), "application/json")
		check(t, "body", string(r.Body), `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
	}, takes(499*time.Millisecond, result(`{"content":[]}`)))
}

// What is only passed on comes in the framing that the upstream chose, if the
// client takes that. A tools/call is more than passed on.
func TestFramingOfAForwardedAnswer(t *testing.T) {
	reply := upstream.Reply{Result: wire.Raw(`{"messages":[]}`), Streamed: true}
	g := newGateway(t, func(s *setup) {
		s.up.call = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) { return reply, nil }
	})
	c := g.client("ann")
	form := func(method string, options ...mcptest.Option) string {
		return g.ok(c.Call(t.Context(), method, wire.Raw(`{"name":"x"}`), options...)).Header.Get("Content-Type")
	}
	check(t, "as the upstream", form("prompts/get"), "text/event-stream")
	check(t, "for a client of JSON", form("prompts/get", mcptest.WithHeader("Accept", "application/json")), "application/json")
	check(t, "tools/call", form("tools/call"), "application/json")
	reply = upstream.Reply{Error: wire.Raw(`{"code":-32601,"message":"no"}`), Streamed: true}
	r := g.ok(c.Call(t.Context(), "prompts/get", wire.Raw(`{"name":"x"}`)))
	check(t, "status of an error", r.Status, http.StatusNotFound)
	check(t, "form of an error", r.Header.Get("Content-Type"), "application/json")
}

func TestWaitingClientGetsHeadersSoonAndCommentsAfterwards(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		began := time.Now()
		var headers time.Duration
		r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`, mcptest.OnHeader(func(*http.Response) { headers = time.Since(began) })))
		check(t, "headers after", headers, 500*time.Millisecond)
		check(t, "status", r.Status, 200)
		check(t, "content type", r.Header.Get("Content-Type"), "text/event-stream")
		check(t, "buffering", r.Header.Get("X-Accel-Buffering"), "no")
		check(t, "caching", r.Header.Get("Cache-Control"), "no-cache, no-transform")
		check(t, "comments in 61 s", strings.Count(string(r.Body), ": keep-alive\n\n"), 1+4) // at 0.5, 15.5, 30.5, 45.5 and 60.5 s
		check(t, "end", string(r.Body[strings.LastIndex(string(r.Body), "event"):]),
			"event: message\ndata: "+`{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`+"\n\n")
	}, forbidden, takes(61*time.Second, result(`{"content":[]}`)))
}

// A comment comes only after silence.
func TestProgressIsASignOfLifeToo(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`, mcptest.WithProgress(wire.Raw(`"p"`))))
		check(t, "notifications", len(r.Notifications), 10)
		check(t, "comments", strings.Count(string(r.Body), ": keep-alive"), 1) // the first, at 0.5 s
	}, forbidden, func(s *setup) {
		s.up.call = func(_ context.Context, _ upstream.Request, h upstream.Handler) (upstream.Reply, error) {
			for range 10 {
				<-time.After(14 * time.Second)
				h.Progress(nil)
			}
			return result(`{"content":[]}`), nil
		}
	})
}

func TestClientThatAcceptsJSONOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		for _, accept := range []string{"application/json", "application/*"} {
			r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`, mcptest.WithHeader("Accept", accept), mcptest.WithProgress(wire.Raw(`1`))))
			check(t, "content type", r.Header.Get("Content-Type"), "application/json")
			check(t, "notifications", len(r.Notifications), 0)
			check(t, "text", r.Text(), "done")
		}
	}, forbidden, func(s *setup) {
		s.up.call = func(_ context.Context, _ upstream.Request, h upstream.Handler) (upstream.Reply, error) {
			h.Progress(nil)
			<-time.After(time.Minute)
			return result(`{"content":[{"type":"text","text":"done"}]}`), nil
		}
	})
}

func talkative(s *setup) {
	s.up.call = func(_ context.Context, _ upstream.Request, h upstream.Handler) (upstream.Reply, error) {
		params, err := wire.ParseObject(wire.Raw(`{"progress":1.0,"total":9007199254740993,"message":"x","extra":{"b":1,"a":[]}}`))
		if err != nil {
			return upstream.Reply{}, err
		}
		h.Progress(params)
		h.Notify("notifications/message", wire.Raw(`{"level":"info","data":9007199254740993}`))
		h.Notify("notifications/tools/list_changed", wire.Raw(`{}`))
		return result(`{"content":[]}`), nil
	}
}

func TestProgressUnderTheClientsOwnToken(t *testing.T) {
	g := newGateway(t, talkative)
	for _, token := range []string{`"tok"`, `7`, `12345678901234567890`} {
		r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`, mcptest.WithProgress(wire.Raw(token))))
		check(t, "notifications", len(r.Notifications), 1)
		check(t, "method", r.Notifications[0].Method, "notifications/progress")
		check(t, "params", string(r.Notifications[0].Params),
			`{"progress":1.0,"total":9007199254740993,"message":"x","extra":{"b":1,"a":[]},"progressToken":`+token+`}`)
	}
}

func TestNotificationsNobodyAskedFor(t *testing.T) {
	g := newGateway(t, talkative)
	r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`))
	check(t, "notifications", len(r.Notifications), 0)
	check(t, "content type", r.Header.Get("Content-Type"), "application/json")
	r = g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`, mcptest.WithMeta(wire.MetaLogLevel, wire.Raw(`"info"`))))
	check(t, "notifications", len(r.Notifications), 1)
	check(t, "params", string(r.Notifications[0].Params), `{"level":"info","data":9007199254740993}`)
}

func TestNotificationsOfAForwardedRequest(t *testing.T) {
	g := newGateway(t, talkative)
	r := g.ok(g.client("ann").Call(t.Context(), "prompts/get", wire.Raw(`{"name":"p"}`), mcptest.WithProgress(wire.Raw(`1`))))
	check(t, "notifications", len(r.Notifications), 1)
}

// What comes after the answer is nobody's: no write, and no crash.
func TestNotificationsAfterTheAnswer(t *testing.T) {
	handlers := make(chan upstream.Handler, 1)
	g := newGateway(t, func(s *setup) {
		s.up.call = func(_ context.Context, _ upstream.Request, h upstream.Handler) (upstream.Reply, error) {
			handlers <- h
			return result(`{"content":[]}`), nil
		}
	})
	for range 20 {
		r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`, mcptest.WithProgress(wire.Raw(`1`))))
		(<-handlers).Progress(nil)
		check(t, "notifications", len(r.Notifications), 0)
	}
}

// A client that does not read holds nobody up; after the time for a write it is
// cut off and its call cancelled.
func TestSlowReader(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		type end struct {
			talked, cancelled time.Time
		}
		ends := make(chan end, 1)
		g.up.call = func(ctx context.Context, _ upstream.Request, h upstream.Handler) (upstream.Reply, error) {
			for range 10 * queueLength {
				h.Progress(nil) // must not block
			}
			talked := time.Now()
			<-ctx.Done()
			ends <- end{talked, time.Now()}
			return upstream.Reply{}, ctx.Err()
		}
		began := time.Now()
		conn := g.request("tools/call", "Mcp-Name: tool\r\n", `{"name":"tool","_meta":{"progressToken":1,`+goodMeta[len(`"_meta":{`):]+`}`)
		defer conn.Close()
		e := <-ends
		check(t, "time that the upstream was held up", e.talked.Sub(began), 0)
		check(t, "time until the call was cancelled", e.cancelled.Sub(began), 5*time.Second)
	}, forbidden)
}

// A large answer takes as long as it takes, as long as some of it gets through.
func TestLargeAnswerOverAThinLine(t *testing.T) {
	large := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`
	inBubble(t, func(t *testing.T, g *gateway) {
		for _, wait := range []time.Duration{0, time.Minute} { // as JSON, and as an event
			g.up.call = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
				<-time.After(wait)
				return result(large), nil
			}
			c := g.client("ann")
			c.HTTP.Transport = thin{c.HTTP.Transport}
			began := time.Now()
			r := g.ok(c.CallTool(t.Context(), "tool", `{}`))
			check(t, "length of the text", len(r.Text()), 1<<20)
			check(t, "took longer than one write may", time.Since(began) > 5*time.Second+wait, true)
		}
	}, forbidden)
}

// thin reads bodies slowly: 64 KiB in three seconds.
type thin struct{ http.RoundTripper }

func (t thin) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &thinBody{ReadCloser: resp.Body}
	}
	return resp, err
}

type thinBody struct {
	io.ReadCloser
	read int
}

func (b *thinBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.read += n; b.read >= 64<<10 {
		b.read = 0
		<-time.After(3 * time.Second)
	}
	return n, err
}

func TestHangUpReachesTheUpstream(t *testing.T) {
	arrived, cancelled := make(chan struct{}), make(chan time.Time, 1)
	g := newGateway(t, func(s *setup) {
		s.up.call = func(ctx context.Context, _ upstream.Request, _ upstream.Handler) (upstream.Reply, error) {
			arrived <- struct{}{}
			<-ctx.Done()
			cancelled <- time.Now()
			return upstream.Reply{}, ctx.Err()
		}
	})
	for _, method := range []string{"tools/call", "prompts/get"} {
		ctx, hangUp := context.WithCancel(t.Context())
		go func() {
			<-arrived
			hangUp()
		}()
		if _, err := g.client("ann").Call(ctx, method, wire.Raw(`{"name":"tool"}`)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		left := time.Now()
		select {
		case at := <-cancelled:
			if late := at.Sub(left); late > 100*time.Millisecond {
				t.Errorf("%s: the upstream was told %v after the hang-up", method, late)
			}
		case <-time.After(deadline):
			t.Fatalf("%s: the upstream was never told", method)
		}
	}
}

func TestNothingIsLeftOfAbandonedRequests(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.up.call = waits; s.HoldAfter = time.Millisecond })
	before := runtime.NumGoroutine()
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		c := g.client("ann")
		if _, err := c.CallTool(ctx, "tool", `{}`, mcptest.WithProgress(wire.Raw(`1`))); err == nil {
			t.Error("there was an answer")
		}
		cancel()
		c.Close()
	}
	mcptest.Eventually(t, deadline, "no calls in flight", func() bool { return g.coord.Len() == 0 })
	mcptest.Eventually(t, deadline, "no more goroutines than before", func() bool { return runtime.NumGoroutine() <= before })
}
