package app_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app/apptest"
)

// BenchmarkQuickCall is a small tools/call that passes, as a client sees it, and
// beside it the same without anything between and with a tuned ReverseProxy.
// Client and server are in the same process, and do as little as can be done: what
// is more than "direct" is the cost of passing.
func BenchmarkQuickCall(b *testing.B) {
	benchmarkCalls(b, `{"text":"the quick brown fox"}`, strings.Repeat("quick ", 30))
}

// BenchmarkLargeArguments is BenchmarkQuickCall with 1 MB of arguments,
// BenchmarkLargeResult with 1 MB of result.
func BenchmarkLargeArguments(b *testing.B) {
	benchmarkCalls(b, `{"text":"`+strings.Repeat("much too much   ", 64<<10)+`"}`, "little")
}

func BenchmarkLargeResult(b *testing.B) {
	benchmarkCalls(b, `{}`, strings.Repeat("much too much   ", 64<<10))
}

func benchmarkCalls(b *testing.B, arguments, text string) {
	server := bareServer(b, `"result":{"resultType":"complete","content":[{"type":"text","text":"`+text+`"}],"isError":false}}`)
	rules := "rules:\n"
	for i := range 49 {
		rules += fmt.Sprintf("  - {match: {tool: team%d_*}, promoteAfter: 5s}\n", i)
	}
	rules += "  - {match: {tool: \"*\"}, promoteAfter: 2s}\n"
	g := apptest.Start(b, zap.NewNop(), withSums(people)+"upstreams: [{name: u, path: /mcp, url: \"http://"+server+"/mcp\", era: modern}]\n"+
		"timeouts: {drain: 0s, holdAfter: 1m}\n"+ // a machine that is slow for a moment makes no stream of the answer
		"limits: {maxRequestsPerSecond: 1000000, maxRequestsPerSecondPerPrincipal: 1000000, maxRequestBurstPerPrincipal: 1000000}\n", rules)
	pass := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: server}) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	}
	reverse := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // else an answer that is very quick is cut off
		pass.ServeHTTP(w, r)
	})}
	l := listenLoopback(b)
	go func() { _ = reverse.Serve(l) }() // ends with the listener
	b.Cleanup(func() { reverse.Close() })
	request := callBytes("ann-1", arguments)
	reserve := make([]byte, 32<<20) // as the program has it, so that as little is collected
	defer runtime.KeepAlive(reserve)
	for _, at := range []struct{ name, address string }{{"direct", server}, {"ReverseProxy", l.Addr().String()}, {"gateway", strings.TrimSuffix(strings.TrimPrefix(g.Endpoints()[0], "http://"), "/mcp")}} {
		b.Run(at.name, func(b *testing.B) {
			c := dialBare(b, at.address)
			c.call(b, request) // the first one connects, and asks for the tools
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				c.call(b, request)
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

func callBytes(key, arguments string) []byte {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":` + arguments + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
	return fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nX-Api-Key: %s\r\n"+
		"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func listenLoopback(b *testing.B) net.Listener {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return l
}

// bareConn is a connection on which messages are read without making anything of them.
type bareConn struct {
	net.Conn
	in   *bufio.Reader
	body []byte
}

func dialBare(b *testing.B, address string) *bareConn {
	b.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return newBareConn(c)
}

func newBareConn(c net.Conn) *bareConn { return &bareConn{Conn: c, in: bufio.NewReaderSize(c, 64<<10)} }

func (c *bareConn) call(b *testing.B, request []byte) {
	if _, err := c.Write(request); err != nil {
		b.Fatal(err)
	}
	if first, err := c.next(); err != nil || !bytes.HasPrefix(first, []byte("HTTP/1.1 200")) {
		b.Fatalf("%.200s %.200s %v", first, c.body, err)
	}
}

// next reads a message with a length, and returns its first line and keeps its body.
func (c *bareConn) next() (first []byte, err error) {
	var status [16]byte
	line, err := c.in.ReadSlice('\n')
	first = append(status[:0], line[:min(len(line), len(status))]...)
	length := 0
	for len(line) > 2 && err == nil {
		if line, err = c.in.ReadSlice('\n'); len(line) > 16 && strings.EqualFold(string(line[:16]), "content-length: ") {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(line[16:])))
		}
	}
	if err != nil {
		return first, err
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	_, err = io.ReadFull(c.in, c.body)
	return first, err
}

// bareServer gives every request the same answer under its own id.
func bareServer(b *testing.B, rest string) (address string) {
	b.Helper()
	l := listenLoopback(b)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the benchmark is over
			}
			go answerAll(newBareConn(conn), rest)
		}
	}()
	return l.Addr().String()
}

func answerAll(c *bareConn, rest string) {
	defer c.Close()
	var out []byte
	for {
		if _, err := c.next(); err != nil {
			return
		}
		id := c.body[bytes.Index(c.body, []byte(`"id":`))+5:]
		id = id[:bytes.IndexByte(id, ',')]
		length := len(`{"jsonrpc":"2.0","id":,`) + len(id) + len(rest)
		out = fmt.Appendf(out[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"+`{"jsonrpc":"2.0","id":%s,%s`, length, id, rest)
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
