package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// listenRaw opens a stream in a version of HTTP, over a connection of its own.
func (g *gateway) listenRaw(version string) net.Conn {
	g.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(g.url, "http://"), "/mcp"))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(deadline))
	body := `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{` + goodMeta + `,"notifications":{"toolsListChanged":true}}}`
	head := "POST /mcp HTTP/" + version + "\r\nHost: localhost\r\nX-Caller: ann\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
		wire.HeaderVersion + ": " + wire.Version + "\r\n" + wire.HeaderMethod + ": subscriptions/listen\r\nContent-Length: "
	if _, err := io.WriteString(conn, head+strconv.Itoa(len(body))+"\r\n\r\n"+body); err != nil {
		g.t.Fatal(err)
	}
	return conn
}

// TestAStreamEndsWithItsConnection: whoever serves it, net/http or not, the client
// gets all of it in the framing that it was told, and what it sends meanwhile is
// no request.
func TestAStreamEndsWithItsConnection(t *testing.T) {
	for version, chunked := range map[string]bool{"1.1": true, "1.0": false} {
		t.Run(version, func(t *testing.T) {
			g := newGateway(t)
			conn := g.listenRaw(version)
			mcptest.Eventually(t, deadline, "an open stream", func() bool { return g.quotas.streams.Taken() == 1 })
			if chunked {
				_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
			}
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			g.CloseStreams()
			if err := g.server.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			g.WaitStreams(ctx)
			check(t, "open streams", g.quotas.streams.Taken(), 0)
			all, err := io.ReadAll(conn)
			if err != nil {
				t.Error(err)
			}
			check(t, "in chunks to the last", bytes.HasSuffix(all, []byte("\r\n0\r\n\r\n")), chunked)
			resp, body := readResponse(t, bytes.NewReader(all))
			check(t, "the client is told that the connection ends", resp.Close, true)
			want := `data: {"jsonrpc":"2.0","id":7,"result":{"resultType":"complete",` + tag + "}}\n\n"
			if !strings.HasSuffix(string(body), want) {
				t.Errorf("got %s, want it to end with %s", body, want)
			}
		})
	}
}

func TestAClientLeavesAStream(t *testing.T) {
	g := newGateway(t)
	conn := g.listenRaw("1.1")
	readEvents(t, conn, 1)
	conn.Close()
	mcptest.Eventually(t, deadline, "no open stream", func() bool { return g.quotas.streams.Taken() == 0 })
}
