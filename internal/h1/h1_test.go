package h1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// dialed is a Transport that counts its connections.
func dialed(t testing.TB, adjust ...func(*Transport)) (*Transport, *atomic.Int64) {
	var n atomic.Int64
	tr := &Transport{MaxIdle: 4, IdleTimeout: time.Hour, MaxHeaderBytes: 8 << 10, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		n.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	for _, f := range adjust {
		f(tr)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr, &n
}

// request is a POST.
func request(t testing.TB, at, body string) *Request {
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return &Request{Method: http.MethodPost, URL: u, Header: http.Header{}, Body: [][]byte{[]byte(body)}}
}

func do(ctx context.Context, tr *Transport, req *Request) (*http.Response, error) {
	x, err := tr.Start(ctx, req, new(atomic.Bool))
	if err != nil {
		return nil, err
	}
	return x.Response(ctx)
}

func post(t testing.TB, tr *Transport, url, body string) (status int, text string, err error) {
	resp, err := do(t.Context(), tr, request(t, url, body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestExchangesShareAConnection(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch string(b) {
		case "chunked":
			w.(http.Flusher).Flush()
		case "nothing":
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Write(b)
	}))
	defer s.Close()
	tr, n := dialed(t)
	large := strings.Repeat("x", 1<<20)
	for _, body := range []string{"short", "chunked", "", large, "short"} {
		if status, got, err := post(t, tr, s.URL, body); err != nil || status != 200 || got != body {
			t.Errorf("%.10s: HTTP %d, %d bytes, %v", body, status, len(got), err)
		}
	}
	if status, got, err := post(t, tr, s.URL, "nothing"); err != nil || status != 202 || got != "" {
		t.Errorf("nothing: HTTP %d, %q, %v", status, got, err)
	}
	if n.Load() != 1 {
		t.Errorf("%d connections for exchanges one after the other", n.Load())
	}
}

func TestManyAtOnce(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	defer s.Close()
	tr, _ := dialed(t)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 50 {
				body := fmt.Sprint(g, " ", i)
				if _, got, err := post(t, tr, s.URL, body); err != nil || got != body {
					t.Errorf("sent %q, got %q, %v", body, got, err)
				}
			}
		})
	}
	wg.Wait()
	if idle := len(tr.idle[strings.TrimPrefix(s.URL, "http://")]); idle > tr.MaxIdle {
		t.Errorf("%d connections are kept; the limit is %d", idle, tr.MaxIdle)
	}
}

// raw is a server that answers each connection's requests, one after the other,
// with the bytes that script says, and then closes it or does what after says.
func raw(t *testing.T, script func(n int) string, after func(net.Conn)) (url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var n atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					io.Copy(io.Discard, req.Body)
					if io.WriteString(c, script(int(n.Add(1)))); after != nil {
						after(c)
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestConnectionsThatAreNotUsedAgain(t *testing.T) {
	closed := make(chan struct{}, 8)
	for name, c := range map[string]struct {
		answer string
		after  func(net.Conn)
	}{
		"the server says that it closes": {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", nil},
		"the body ends with the stream":  {"HTTP/1.1 200 OK\r\n\r\nok", func(c net.Conn) { c.Close() }},
		"HTTP/1.0":                       {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", nil},
		"bytes beyond the response":      {ok + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", nil},
		"the server closes without a word": {ok, func(c net.Conn) {
			c.Close()
			closed <- struct{}{}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			url := raw(t, func(int) string { return c.answer }, c.after)
			tr, n := dialed(t)
			for i := range 3 {
				if _, got, err := post(t, tr, url, "x"); err != nil || got != "ok" {
					t.Fatalf("exchange %d: %q, %v", i, got, err)
				}
				if c.answer == ok {
					<-closed
				}
			}
			if n.Load() != 3 {
				t.Errorf("%d connections for 3 exchanges", n.Load())
			}
		})
	}
}

// What comes late on an idle connection would be taken for the answer to the
// next request.
func TestAnIdleConnectionThatSpeaksIsNotUsed(t *testing.T) {
	spoken := make(chan struct{})
	url := raw(t, func(int) string { return ok }, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		spoken <- struct{}{}
		io.Copy(io.Discard, c)
	})
	tr, _ := dialed(t)
	for range 2 {
		if _, got, err := post(t, tr, url, "x"); err != nil || got != "ok" {
			t.Fatalf("got %q, %v", got, err)
		}
		<-spoken
	}
}

func TestBrokenResponses(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"none":                       {"", "EOF"},
		"half a header":              {"HTTP/1.1 200 OK\r\nContent-", "malformed MIME header"},
		"half a body":                {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "unexpected EOF"},
		"two lengths":                {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", "Content-Length"},
		"an endless header":          {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 64<<10), "too long"},
		"another protocol":           {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "switches"},
		"interim responses for ever": {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100), "interim"},
	} {
		t.Run(name, func(t *testing.T) {
			url := raw(t, func(int) string { return c.answer }, func(c net.Conn) { c.Close() })
			tr, _ := dialed(t)
			_, _, err := post(t, tr, url, "x")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want one with %q", err, c.want)
			}
		})
	}
}

func TestInvalidHeadersDoNotGoOut(t *testing.T) {
	tr, n := dialed(t)
	for _, h := range []http.Header{{"A": {"x\r\nB: y"}}, {"A\r\nB": {"y"}}, {"A": {"x\x00"}}, {"": {"x"}}} {
		req := request(t, "http://127.0.0.1:1", "x")
		req.Header = h
		if _, err := do(t.Context(), tr, req); err == nil || !strings.Contains(err.Error(), "invalid") {
			t.Errorf("%q: error %v", h, err)
		}
	}
	if n.Load() != 0 {
		t.Error("it dialled")
	}
}

func TestInterimResponsesArePassedOver(t *testing.T) {
	url := raw(t, func(int) string {
		return "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok
	}, nil)
	tr, _ := dialed(t)
	if status, got, err := post(t, tr, url, "x"); err != nil || status != 200 || got != "ok" {
		t.Errorf("HTTP %d, %q, %v", status, got, err)
	}
}

func TestTheEndOfTheContextEndsTheExchange(t *testing.T) {
	begun, gone := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.Header.Get("Stream") != "" {
			w.(http.Flusher).Flush()
		}
		close(begun)
		<-r.Context().Done()
		close(gone)
	}))
	defer s.Close()
	for _, stream := range []string{"", "yes"} {
		begun, gone = make(chan struct{}), make(chan struct{})
		tr, _ := dialed(t)
		ctx, cancel := context.WithCancel(t.Context())
		req := request(t, s.URL, "x")
		req.Header.Set("Stream", stream)
		failed := make(chan error, 1)
		go func() {
			resp, err := do(ctx, tr, req)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			failed <- err
		}()
		<-begun
		cancel()
		if err := <-failed; err == nil || stream == "" && !errors.Is(err, context.Canceled) {
			t.Errorf("stream %q: error %v", stream, err)
		}
		<-gone // the server was told
	}
}

// A server may answer a large request without reading it: neither waits for the
// other then.
func TestAnEarlyAnswerToALargeRequest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	defer close(done)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
		<-done
	}()
	tr, _ := dialed(t)
	status, got, err := post(t, tr, "http://"+l.Addr().String(), string(bytes.Repeat([]byte("x"), 32<<20)))
	if err != nil || status != 413 || got != "no" {
		t.Errorf("HTTP %d, %q, %v", status, got, err)
	}
	if len(tr.idle) != 0 {
		t.Error("a connection with half a request on it was kept")
	}
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	ended := make(chan struct{})
	url := raw(t, func(int) string { return ok }, func(c net.Conn) {
		io.Copy(io.Discard, c)
		close(ended)
	})
	tr, _ := dialed(t, func(tr *Transport) { tr.IdleTimeout = time.Millisecond })
	if _, _, err := post(t, tr, url, "x"); err != nil {
		t.Fatal(err)
	}
	<-ended
}

// Of many that were in use at once, those that were used last are kept.
func TestTheLongestIdleConnectionGivesWay(t *testing.T) {
	ended := make(chan struct{}, 3)
	url := raw(t, func(int) string { return ok }, func(c net.Conn) {
		io.Copy(io.Discard, c)
		ended <- struct{}{}
	})
	tr, dialled := dialed(t, func(tr *Transport) { tr.MaxIdle = 2 })
	var waiting []*Exchange
	for range 3 {
		x, err := tr.Start(t.Context(), request(t, url, "x"), new(atomic.Bool))
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, x)
	}
	for _, x := range waiting {
		resp, err := x.Response(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
	}
	<-ended
	idle := tr.idle[waiting[0].conn.addr]
	if dialled.Load() != 3 || len(idle) != 2 || idle[0] != waiting[1].conn || idle[1] != waiting[2].conn {
		t.Errorf("of %d connections %d are kept", dialled.Load(), len(idle))
	}
}

// Who waits has no buffer, and is told of the end as well.
func TestWaitEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(cancel func(), answer chan<- string)
		fine bool
	}{
		"with the answer":         {func(_ func(), answer chan<- string) { answer <- ok }, true},
		"with the connection":     {func(_ func(), answer chan<- string) { answer <- "" }, false},
		"with that of its caller": {func(cancel func(), _ chan<- string) { cancel() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			answer := make(chan string, 1)
			defer close(answer)
			url := raw(t, func(int) string { return <-answer }, func(c net.Conn) { c.Close() })
			tr, _ := dialed(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			x, err := tr.Start(ctx, request(t, url, "x"), new(atomic.Bool))
			if err != nil || x.conn.in != nil {
				t.Fatalf("error %v, buffer %v", err, x.conn.in)
			}
			go c.end(cancel, answer)
			x.Wait()
			if resp, err := x.Response(ctx); (err == nil) != c.fine {
				t.Errorf("%v, %v", resp, err)
			}
		})
	}
}

// At the end of the context who has asked for it is told, and then the connection is
// closed.
func TestAbandon(t *testing.T) {
	begun, told, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(closed)
	}))
	defer s.Close()
	tr, _ := dialed(t)
	ctx, cancel := context.WithCancel(t.Context())
	req := request(t, s.URL, "")
	req.Abandon = func() {
		select {
		case <-closed:
			t.Error("the connection was closed before")
		default:
		}
		told <- struct{}{}
	}
	x, err := tr.Start(ctx, req, new(atomic.Bool))
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	cancel()
	<-told
	if resp, err := x.Response(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", resp, err)
	}
	<-closed
}

// An exchange that is released goes on after the end of the context, and so may its
// connection.
func TestRelease(t *testing.T) {
	rest := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-rest
		io.WriteString(w, "rest")
	}))
	defer s.Close()
	tr, dialled := dialed(t)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		x, err := tr.Start(ctx, request(t, s.URL, "x"), new(atomic.Bool))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := x.Response(ctx)
		if err != nil {
			t.Fatal(err)
		}
		x.Release()
		cancel()
		rest <- struct{}{}
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "rest" {
			t.Errorf("%q, %v", b, err)
		}
	}
	if dialled.Load() != 1 {
		t.Errorf("%d connections", dialled.Load())
	}
}

// BenchmarkExchange compares a small exchange with one of http.Transport.
func BenchmarkExchange(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	defer s.Close()
	ours, _ := dialed(b)
	b.Run("h1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := post(b, ours, s.URL, "hello"); err != nil {
				b.Fatal(err)
			}
		}
	})
	theirs := &http.Transport{MaxIdleConnsPerHost: 4}
	defer theirs.CloseIdleConnections()
	b.Run("http.Transport", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL, strings.NewReader("hello"))
			if err != nil {
				b.Fatal(err)
			}
			resp, err := theirs.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			_, err = io.ReadAll(resp.Body)
			if resp.Body.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
