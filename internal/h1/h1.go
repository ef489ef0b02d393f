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
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Transport sends requests to http URLs. A request is never sent twice.
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
	readers sync.Pool          // of *bufio.Reader
}

// atOnce is how large a body, in bytes, is written before the response is waited
// for. A larger one may not fit into what lies between here and a server that
// answers without having read it all.
const atOnce = 16 << 10

// Request is what Start sends.
type Request struct {
	Method string // but HEAD and CONNECT
	URL    *url.URL
	Header http.Header
	Body   [][]byte // its pieces, one after the other
	// Abandon is called when the context ends before the exchange, and then the
	// connection is closed; may be nil.
	Abandon func()
}

// Start sends a request. When ctx ends, the connection is closed. sent is set before
// the server may have read any of it.
func (t *Transport) Start(ctx context.Context, req *Request, sent *atomic.Bool) (*Exchange, error) {
	out, err := t.outgoing(req)
	if err != nil {
		return nil, err
	}
	c, err := t.conn(ctx, address(req.URL))
	if err != nil {
		out.done()
		return nil, err
	}
	sent.Store(true)
	x := &Exchange{conn: c, transport: t, abandon: req.Abandon}
	x.stop = context.AfterFunc(ctx, x.giveUp)
	if err := x.send(out); err != nil {
		return nil, x.failed(ctx, err)
	}
	return x, nil
}

func address(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// Exchange is a request that was sent, and its response. Nothing of the request is
// kept, and no buffer, until the server has begun to answer.
type Exchange struct {
	conn      *conn
	transport *Transport
	abandon   func()
	stop      func() bool  // makes the end of the context mean nothing any more
	released  bool         // stop has done so
	sent      <-chan error // gets the end of a request that is written meanwhile; nil for one that was written at once
	heard     bool         // the server has begun to answer
	once      sync.Once

	body     io.Reader // of the response
	reusable bool      // the connection, after it
}

// giveUp is for the end of the context.
func (x *Exchange) giveUp() {
	if x.abandon != nil {
		x.abandon()
	}
	x.conn.abort()
}

// Wait returns when the server has begun to answer, or never will. Response waits
// as well; who calls Wait before needs little of a stack meanwhile.
func (x *Exchange) Wait() {
	if !x.heard {
		x.conn.await()
		x.heard = true
	}
}

// Response is the response, of which the Request is not set. It is to be called
// once, with the context of the request.
func (x *Exchange) Response(ctx context.Context) (*http.Response, error) {
	x.Wait()
	resp, err := x.receive()
	if err != nil {
		return nil, x.failed(ctx, err)
	}
	if resp.Body == http.NoBody {
		x.end(!resp.Close)
		return resp, nil
	}
	x.body, x.reusable = resp.Body, !resp.Close
	resp.Body = (*body)(x)
	return resp, nil
}

// Release makes the end of the context mean nothing any more. It is for who has got
// the response.
func (x *Exchange) Release() {
	x.released = x.released || x.stop()
}

// failed ends the exchange, and says why.
func (x *Exchange) failed(ctx context.Context, err error) error {
	x.end(false)
	if ctxErr := ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	return err
}

func (x *Exchange) send(out outgoing) error {
	if out.length > atOnce {
		x.sendMeanwhile(out)
		return nil
	}
	return out.writeTo(x.conn)
}

func (x *Exchange) sendMeanwhile(out outgoing) {
	sent := make(chan error, 1)
	go func() { sent <- out.writeTo(x.conn) }()
	x.sent = sent
}

// maxInterim is how many responses without meaning may come before the one.
const maxInterim = 5

func (x *Exchange) receive() (*http.Response, error) {
	x.conn.in = x.transport.reader(x.conn)
	for range maxInterim {
		resp, err := x.conn.readHeader(x.transport.MaxHeaderBytes)
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
func (x *Exchange) end(whole bool) {
	x.once.Do(func() {
		if x.Release(); x.released && whole && x.written() && x.conn.clean() {
			x.transport.keep(x.conn)
			return
		}
		x.conn.abort()
	})
}

// moment is how long a request may still be on its way when the response has come.
const moment = 100 * time.Millisecond

// written tells whether all of the request is out. A server that has answered has read
// it, mostly, and who writes it is about to see that.
func (x *Exchange) written() bool {
	if x.sent == nil {
		return true
	}
	select {
	case err := <-x.sent:
		return err == nil
	case <-time.After(moment):
		return false
	}
}

// body is that of the response. Closed before its end, it takes the connection with it.
type body Exchange

func (b *body) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil {
		(*Exchange)(b).end(errors.Is(err, io.EOF) && b.reusable)
	}
	return n, err
}

func (b *body) Close() error {
	(*Exchange)(b).end(false)
	return nil
}
