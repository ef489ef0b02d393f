package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskgate/internal/bubble"
	"taskgate/internal/mcptest"
	"taskgate/quota"
	"taskgate/reqcoord"
	"taskgate/upstream"
	"taskgate/wire"
)

// refused looks at the answer to a request that was one too many.
func refused(t *testing.T, r mcptest.Reply, reason, limit string) (wait time.Duration) {
	t.Helper()
	check(t, "status", r.Status, http.StatusTooManyRequests)
	if r.Err() == nil {
		t.Fatalf("no error: %s", r.Body)
	}
	check(t, "code", r.Err().Code, wire.CodeInternal)
	data, err := wire.ParseObject(r.Err().Data)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "reason", reasonOf(r.Err()), reason)
	check(t, "retriable", string(data.Get("retriable")), "true")
	check(t, "limit", string(data.Get("limit")), limit)
	ms, err := strconv.Atoi(string(data.Get("retryAfterMs")))
	if err != nil || ms < 1 {
		t.Errorf("retryAfterMs is %s", data.Get("retryAfterMs"))
	}
	check(t, "Retry-After", r.Header.Get("Retry-After"), strconv.Itoa(max(1, (ms-1+999)/1000)))
	return time.Duration(ms) * time.Millisecond
}

func TestRequestsOfOneCallerAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, func(s *setup) {
			s.pipes = true
			s.Quota.PrincipalRequests = quota.PerSecond(10, 20)
		})
		hog, modest := g.client("hog"), g.client("modest")
		for range 20 {
			check(t, "within the burst", g.ok(hog.CallTool(t.Context(), "tool", `{}`)).Status, http.StatusOK)
		}
		before := len(g.up.got())
		began := time.Now()
		wait := refused(t, g.ok(hog.CallTool(t.Context(), "tool", `{}`)), "too_many_requests", "10")
		heldBack(t, began)
		check(t, "calls at the upstream for what was refused", len(g.up.got())-before, 0)
		check(t, "somebody else", g.ok(modest.CallTool(t.Context(), "tool", `{}`)).Status, http.StatusOK)
		bubble.Advance(time.Until(began.Add(wait)))
		check(t, "after the wait", g.ok(hog.CallTool(t.Context(), "tool", `{}`)).Status, http.StatusOK)
		refused(t, g.ok(hog.CallTool(t.Context(), "tool", `{}`)), "too_many_requests", "10")
	})
}

// heldBack checks that the refusal of a request that was made then has only come now.
func heldBack(t *testing.T, made time.Time) {
	t.Helper()
	if took := time.Since(made); took < slowDown/2 || took >= slowDown*3/2 {
		t.Errorf("the refusal came after %v", took)
	}
}

func TestRefusalsForWantOfRoomAreHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, func(s *setup) {
			s.pipes = true
			s.up.call = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
				return upstream.Reply{}, &reqcoord.OverloadError{}
			}
		})
		made := time.Now()
		r := g.ok(g.client("hog").CallTool(t.Context(), "tool", `{}`))
		check(t, "status", r.Status, http.StatusTooManyRequests)
		check(t, "reason", reasonOf(r.Err()), "overloaded")
		heldBack(t, made)
	})
}

func TestRequestsOfAllAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, func(s *setup) {
			s.pipes = true
			s.Quota.PrincipalRequests, s.Quota.Requests = quota.PerSecond(10, 10), quota.PerSecond(15, 15)
		})
		for i := range 15 {
			check(t, "within the limit", g.ok(g.client(fmt.Sprint(i)).CallTool(t.Context(), "tool", `{}`)).Status, http.StatusOK)
		}
		r := g.ok(g.client("one more").CallTool(t.Context(), "tool", `{}`))
		refused(t, r, "too_many_requests", "15")
		if !strings.Contains(r.Err().Message, "all callers together") {
			t.Errorf("the message is %q", r.Err().Message)
		}
	})
}

// Who is too fast keeps the connection: opening one costs more than a request.
func TestWhoIsTooFastKeepsTheConnection(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.Quota.PrincipalRequests = quota.PerSecond(1, 1) })
	c := g.client("hog")
	g.ok(c.CallTool(t.Context(), "tool", `{}`))
	c.HTTP.Transport.(*http.Transport).DialContext = nil
	for range 3 {
		r := g.ok(c.CallTool(t.Context(), "tool", `{"x":"`+strings.Repeat("a", 10_000)+`"}`))
		refused(t, r, "too_many_requests", "1")
		check(t, "Connection", r.Header.Get("Connection"), "")
	}
}

func TestEarlyPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, func(s *setup) {
			s.pipes = true
			s.Quota.EarlyPolls = 3
			s.decision.PromoteAfter = 0
			s.up.call = waits
		})
		c := g.client("ann")
		id := g.ok(c.CallTool(t.Context(), "tool", `{}`)).TaskID()
		poll := func() mcptest.Reply { return g.ok(c.Task(t.Context(), id)) }
		check(t, "the first", poll().Status, http.StatusOK)
		for range 3 {
			check(t, "early", poll().Status, http.StatusOK)
		}
		g.backend.set(context.DeadlineExceeded) // what is refused costs the store nothing
		wait := refused(t, poll(), "polled_too_fast", "3")
		g.backend.set(nil)
		if wait > time.Second+time.Millisecond || wait < 900*time.Millisecond {
			t.Errorf("told to wait %v, the poll interval is 1s", wait)
		}
		other := g.ok(c.CallTool(t.Context(), "tool", `{}`)).TaskID()
		check(t, "another task", g.ok(c.Task(t.Context(), other)).Status, http.StatusOK)
		check(t, "a stranger learns nothing", g.ok(g.client("bob").Task(t.Context(), id)).Err().Code, wire.CodeInvalidParams)
		for range 50 { // with the jitter of a network
			bubble.Advance(950 * time.Millisecond)
			bubble.Advance(100 * time.Millisecond)
			r := poll()
			check(t, "in time", r.Status, http.StatusOK)
			check(t, "the task", r.Type(), "complete")
		}
		check(t, "cancel", g.ok(c.Cancel(t.Context(), id)).Status, http.StatusOK)
		bubble.Advance(4 * time.Second)
		for range 20 {
			check(t, "after its end", poll().Status, http.StatusOK)
		}
	})
}

func TestStreamsOfOneCallerAreLimited(t *testing.T) {
	g := newGateway(t, func(s *setup) {
		s.Quota.Streams, s.Quota.PrincipalStreams = 3, 2
		s.up.call = waits
	})
	listen := func(ctx context.Context, caller string) (mcptest.Reply, error) {
		return g.client(caller).Call(ctx, "subscriptions/listen", wire.Raw(`{"notifications":{"toolsListChanged":true}}`))
	}
	ctx, hangUp := context.WithCancel(t.Context())
	open := func(caller string) {
		before := g.quotas.streams.Taken()
		go func() { _, _ = listen(ctx, caller) }() // ends with ctx
		mcptest.Eventually(t, deadline, "an open stream", func() bool { return g.quotas.streams.Taken() == before+1 })
	}
	open("hog")
	open("hog")
	refused(t, g.ok(listen(t.Context(), "hog")), "too_many_streams", "2")
	open("modest")
	refused(t, g.ok(listen(t.Context(), "another")), "too_many_streams", "3")
	hangUp()
	mcptest.Eventually(t, deadline, "no open stream", func() bool { return g.quotas.streams.Taken() == 0 })
}
