// Package h1 speaks HTTP/1.1 without TLS to servers, each exchange in the
// goroutine that asks for it. http.Transport has two goroutines for each
// connection, which every request and response is handed to and back: that costs
// more than half of what is spent on a small exchange, and their stacks are
// most of what one costs that takes long.
//
// Responses are read by net/http, so that a message means here what it means
// everywhere else in Go.
package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Transport is an http.RoundTripper for http URLs. A request is never sent twice.
type Transport struct {
	// Dial connects to host:port.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// MaxIdle is how many connections to a server are kept for further requests,
	// IdleTimeout for how long.
	MaxIdle     int
	IdleTimeout time.Duration
	// MaxHeaderBytes limits the header of a response.
	MaxHeaderBytes int64

	mu      sync.Mutex
	idle    map[string][]*conn // by host:port, those used last at the end
	sweeper *time.Timer        // nil while there are none
	writers sync.Pool          // of *bufio.Writer
}

// atOnce is how large a body, in bytes, is written before the response is waited
// for. A larger one may not fit into what lies between here and a server that
// answers without having read it all.
const atOnce = 16 << 10

// RoundTrip implements http.RoundTripper, for requests of which the length is known.
// When the request's context ends, the connection is closed.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.Send(req, new(atomic.Bool))
}

// Send is RoundTrip for who wants to know whether the server may have read any of
// the request: sent is set before.
func (t *Transport) Send(req *http.Request, sent *atomic.Bool) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	out, err := t.outgoing(req)
	if err != nil {
		return nil, err
	}
	c, err := t.conn(req.Context(), address(req))
	if err != nil {
		out.done()
		return nil, err
	}
	sent.Store(true)
	x := &exchange{conn: c, transport: t, stop: context.AfterFunc(req.Context(), c.abort)}
	resp, err := x.roundTrip(req, out)
	if err != nil {
		x.end(false)
		if ctxErr := req.Context().Err(); ctxErr != nil {
			err = ctxErr
		}
		return nil, err
	}
	return resp, nil
}

func address(req *http.Request) string {
	if req.URL.Port() != "" {
		return req.URL.Host
	}
	return net.JoinHostPort(req.URL.Hostname(), "80")
}

// exchange is one request and its response.
type exchange struct {
	*conn
	transport *Transport
	stop      func() bool  // makes the end of the context mean nothing any more
	sent      <-chan error // gets the end of a request that is written meanwhile; nil for one that was written at once
	once      sync.Once
}

func (x *exchange) roundTrip(req *http.Request, out *outgoing) (*http.Response, error) {
	if err := x.send(out); err != nil {
		return nil, err
	}
	resp, err := x.receive(req)
	if err != nil {
		return nil, err
	}
	if resp.Body == http.NoBody {
		x.end(!resp.Close)
		return resp, nil
	}
	resp.Body = &body{resp.Body, x, !resp.Close}
	return resp, nil
}

func (x *exchange) send(out *outgoing) error {
	if out.length <= atOnce {
		return out.writeTo(x.Conn)
	}
	sent := make(chan error, 1)
	go func() { sent <- out.writeTo(x.Conn) }()
	x.sent = sent
	return nil
}

// maxInterim is how many responses without meaning may come before the one.
const maxInterim = 5

func (x *exchange) receive(req *http.Request) (*http.Response, error) {
	for range maxInterim {
		resp, err := x.readHeader(req, x.transport.MaxHeaderBytes)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the server switches to a protocol that nobody asked for")
		case resp.StatusCode >= http.StatusOK:
			return resp, nil
		}
	}
	return nil, fmt.Errorf("more than %d interim responses", maxInterim)
}

// end gives the connection back, or up.
func (x *exchange) end(whole bool) {
	x.once.Do(func() {
		if x.stop() && whole && x.written() && x.clean() {
			x.transport.keep(x.conn)
			return
		}
		x.abort()
	})
}

// written tells whether all of the request is out.
func (x *exchange) written() bool {
	if x.sent == nil {
		return true
	}
	select {
	case err := <-x.sent:
		return err == nil
	default:
		return false
	}
}

// body is a response's. Closed before its end, it takes the connection with it.
type body struct {
	io.Reader
	exchange *exchange
	reusable bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil {
		b.exchange.end(errors.Is(err, io.EOF) && b.reusable)
	}
	return n, err
}

func (b *body) Close() error {
	b.exchange.end(false)
	return nil
}
