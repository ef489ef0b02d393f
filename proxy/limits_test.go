package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/upstream"
	"taskgate/wire"
)

// A body may nest as deep as the limit says, counted from its outermost object.
func TestDepthOfABody(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.MaxDepth = 8 })
	const outside = 4 // the message, params, arguments, and the list in it
	for inside, want := range map[int]string{
		8 - outside: `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`,
		9 - outside: `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid request: the body nests 9 deep; the limit is 8","data":{"limit":8,"reason":"too_deep"}}}`,
	} {
		arguments := `{"brackets":"[[[[[[[[[","x":[` + strings.Repeat("[", inside) + strings.Repeat("]", inside) + `]}`
		r := g.ok(g.client("ann").CallTool(t.Context(), "tool", arguments))
		check(t, fmt.Sprint(inside, " lists inside"), string(r.Body), want)
	}
	check(t, "calls at the upstream", len(g.up.got()), 1)
}

// request sends one over a connection that nobody reads until the test does.
func (g *gateway) request(method, name, params string) net.Conn {
	g.t.Helper()
	conn, err := g.listener.Dial(g.t.Context(), "", "")
	if err != nil {
		g.t.Fatal(err)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Protocol-Version: 2026-07-28\r\n"+
		"Mcp-Method: %s\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", method, name, len(body), body); err != nil {
		g.t.Fatal(err)
	}
	return conn
}

// What waits for a client that reads slowly is bounded in bytes: progress that
// does not fit is dropped, and the answer comes all the same.
func TestBufferOfASlowReader(t *testing.T) {
	const size, room = 10_000, 3
	inBubble(t, func(t *testing.T, g *gateway) {
		told := make(chan struct{})
		g.up.call = func(_ context.Context, _ upstream.Request, h upstream.Handler) (upstream.Reply, error) {
			for range 2 * queueLength {
				h.Progress(wire.Object{}.With("progress", wire.Raw("1")).With("message", wire.Quote(strings.Repeat("x", size))))
			}
			close(told)
			return result(`{"content":[]}`), nil
		}
		conn := g.request("tools/call", "Mcp-Name: tool\r\n", `{"name":"tool","_meta":{"progressToken":1,`+goodMeta[len(`"_meta":{`):]+`}`)
		defer conn.Close()
		<-told
		synctest.Wait()
		_, body := readResponse(t, conn)
		check(t, "notifications", strings.Count(string(body), "notifications/progress"), room)
		check(t, "the answer", strings.Contains(string(body), `"result":{"content":[],"resultType":"complete"}`), true)
	}, forbidden, func(s *setup) { s.BufferBytes = room*size + size/2 })
}

// The same for a stream of subscriptions/listen: of what does not fit the client
// is still told what it has to read again.
func TestBufferOfASlowListener(t *testing.T) {
	const size, room, resources = 10_000, 3, 10
	u := mcptest.NewModern()
	u.Capabilities = wire.Raw(tellsAll)
	joined := make(chan struct{}, 2)
	g := newGateway(t, listenTo(t, u.Start(t)), func(s *setup) {
		s.BufferBytes, s.WriteTimeout, s.pipes = room*size+size/2, deadline, true
		listen := s.up.hear
		s.up.hear = func(ctx context.Context, r upstream.ListenRequest) (*upstream.Subscription, error) {
			defer func() { joined <- struct{}{} }()
			return listen(ctx, r)
		}
	})
	params := `{"notifications":{"resourceSubscriptions":["file:///"]},` + goodMeta + `}`
	slow, quick := g.request("subscriptions/listen", "", params), g.request("subscriptions/listen", "", params)
	defer slow.Close()
	defer quick.Close()
	<-joined
	<-joined // both hear the same stream
	for i := range resources {
		u.Broadcast(wire.Message{Method: wire.NoteResource, Params: wire.Raw(fmt.Sprintf(`{"uri":"file:///%d","_meta":{"text":"%s"}}`, i, strings.Repeat("x", size)))})
	}
	readEvents(t, quick, 1+resources) // then the slow one has heard all of it too

	events := readEvents(t, slow, 1+resources)
	full := 0
	for i, event := range events[1:] {
		if !strings.Contains(event, fmt.Sprintf(`"uri":"file:///%d"`, i)) {
			t.Errorf("event %d: %.200s", i, event)
		}
		if len(event) > size {
			full++
		}
	}
	check(t, "told in full", full, room)
}

// readEvents reads the first n events of a stream. The rest stays unread, until
// the connection is closed.
func readEvents(t *testing.T, conn net.Conn, n int) (events []string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(deadline))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = wire.ReadEvents(resp.Body, 1<<20, func(e wire.Event) error {
		if events = append(events, string(e.Data)); len(events) == n {
			return wire.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatalf("after %d events: %v", len(events), err)
	}
	return events
}
