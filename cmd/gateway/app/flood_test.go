package app_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"taskgate/internal/mcptest"
)

func hostOf(t testing.TB, g *gateway) string {
	t.Helper()
	u, err := url.Parse(g.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// TestSlowSenders: whoever sends headers or a body slowly, or a little now and
// then, is cut off when its time is over, and holds up nobody else.
func TestSlowSenders(t *testing.T) {
	u := mcptest.NewModern(askingTools()...)
	g := start(t, "upstreams: [{name: u, url: \""+u.Start(t)+"\"}]\n", "rules: []\n",
		"TASKGATE_TIMEOUTS_READ_HEADER=500ms", "TASKGATE_TIMEOUTS_BODY=500ms")
	body := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	c := g.client(t, "/mcp", mcptest.NoCapabilities)
	echo := func() {
		t.Helper()
		if r := must(t)(c.CallTool(t.Context(), "echo", `{"text":"hi"}`)); r.Text() != "hi" {
			t.Errorf("somebody else: %d %s", r.Status, r.Body)
		}
	}
	echo() // and is connected from here on: among so many a connection may be late, and is then slow itself
	var wg sync.WaitGroup
	for name, first := range map[string]string{
		"nothing": "", "half a header": "POST /mcp HTTP/1.1\r\nX", "half a body": body + "Content-Length: 1000\r\n\r\n{", "half a chunk": body + "Transfer-Encoding: chunked\r\n\r\nff\r\n{",
	} {
		for range 500 {
			wg.Go(func() {
				if err := drip(hostOf(t, g), first); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	for range 20 {
		echo()
	}
	wg.Wait()
	if n := len(u.Calls("", "")); n != 21 {
		t.Errorf("%d calls have reached the upstream, want 21", n)
	}
}

// drip sends first at once and then a byte at a time until the gateway has had enough.
func drip(address, first string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	closed := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, conn) // an error answer, if any, and the end
		closed <- err
	}()
	if _, err := io.WriteString(conn, first); err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-closed:
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("still open: %w", err)
			}
			return nil
		case <-tick.C:
			_, _ = conn.Write([]byte("x")) // fails once it is closed
		}
	}
}

// TestWhatIsRefusedLeavesNothing: requests that a browser was lured into, or that
// come from nobody, leave no memory, goroutine, task or call behind.
func TestWhatIsRefusedLeavesNothing(t *testing.T) {
	u := mcptest.NewModern(askingTools()...)
	g := start(t, withSums(people)+"upstreams: [{name: u, path: /mcp, url: \""+u.Start(t)+"\"}]\n", "rules: []\n")
	head := func(method, more string) string {
		return method + " /mcp HTTP/1.1\r\nContent-Type: application/json\r\nX-Api-Key: ann-1\r\n" + more + "Content-Length: 0\r\n\r\n"
	}
	floods := map[string]struct {
		request string
		status  int
	}{
		"foreign origin":  {head("POST", "Host: localhost\r\nOrigin: http://evil.example\r\n"), http.StatusForbidden},
		"null origin":     {head("POST", "Host: localhost\r\nOrigin: null\r\n"), http.StatusForbidden},
		"rebound name":    {head("POST", "Host: evil.example\r\n"), http.StatusForbidden},
		"preflight":       {head("OPTIONS", "Host: localhost\r\nOrigin: http://evil.example\r\n"), http.StatusForbidden},
		"simple request":  {strings.Replace(head("POST", "Host: localhost\r\n"), "application/json", "text/plain", 1), http.StatusUnsupportedMediaType},
		"another path":    {strings.Replace(head("POST", "Host: localhost\r\n"), "/mcp", "/other", 1), http.StatusNotFound},
		"no credential":   {strings.Replace(head("POST", "Host: localhost\r\n"), "X-Api-Key", "X-Other", 1), http.StatusUnauthorized},
		"wrong key":       {strings.Replace(head("POST", "Host: localhost\r\n"), "ann-1", "eve", 1), http.StatusUnauthorized},
		"forged identity": {strings.Replace(head("POST", "Host: localhost\r\nX-Forwarded-User: ann\r\n"), "X-Api-Key", "X-Tenant-Id", 1), http.StatusUnauthorized},
	}
	flood := func(n int) {
		for name, f := range floods {
			if got := repeat(t, hostOf(t, g), f.request, n); got != f.status {
				t.Fatalf("%s: status %d, want %d", name, got, f.status)
			}
		}
	}
	flood(100) // whatever is made once is made now
	before, goroutines := heap(), runtime.NumGoroutine()
	flood(2000)
	mcptest.Eventually(t, limit, "as few goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	// The log of this test and the audit log grow; 18 000 requests would leave
	// more with 100 bytes each.
	if grown := heap() - before - int64(len(g.log.String())); grown > 1<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	if calls := len(u.Requests("tools/call")); calls != 0 {
		t.Errorf("the upstream got %d calls", calls)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers have let go
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// repeat sends the request n times over one connection and returns the status
// that all answers have.
func repeat(t *testing.T, address, request string, n int) (status int) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * limit))
	answers := bufio.NewReader(conn)
	for i := range n {
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		if i > 0 && resp.StatusCode != status {
			t.Fatalf("status %d after %d", resp.StatusCode, status)
		}
		status = resp.StatusCode
	}
	return status
}
