package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"taskgate/wire"
)

// sseConn is a conn over HTTP+SSE (2024-11-05, basic/transports#http-with-sse): what
// the server says comes on the stream of one GET, whose first event names the
// address for POSTs.
type sseConn struct {
	messages endpoint // where messages are POSTed; its URL is known once ready
	resp     *http.Response
	client   *endpoint
	end      context.CancelFunc // of the stream
	ready    chan struct{}      // closed when the address is known
	once     sync.Once
}

// openSSE opens the stream of a session. It goes on when ctx ends. Errors are *Error,
// or wrap ctx.Err().
func (e *endpoint) openSSE(ctx context.Context, header http.Header) (*channel, error) {
	stream, end := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, end)()
	resp, err := e.do(stream, http.MethodGet, nil, header)
	if err != nil {
		end()
		return nil, ended(ctx, err)
	}
	if err := noStream(resp); err != nil {
		end()
		resp.Body.Close()
		return nil, err
	}
	c := &sseConn{messages: *e, resp: resp, client: e, end: end, ready: make(chan struct{})}
	ch := newChannel(c, e.opts, e.running)
	select {
	case <-c.ready:
		return ch, nil
	case <-ch.gone:
		return nil, &Error{Kind: Incompatible, Err: fmt.Errorf("the stream names no endpoint: %w", ch.why)}
	case <-ctx.Done():
		ch.hangUp(ctx, nil)
		return nil, ended(ctx, nil)
	}
}

// noStream is why an answer to GET is no stream, else nil.
func noStream(resp *http.Response) error {
	if err := notOK(resp); err != nil {
		return err
	}
	if !isEventStream(resp) {
		return &Error{Kind: Incompatible, Status: resp.StatusCode, Err: errors.New("GET answers with no stream")}
	}
	return nil
}

// isSSE tries whether a GET opens a stream that begins as one of HTTP+SSE.
func (e *endpoint) isSSE(ctx context.Context, header http.Header) bool {
	ctx, cancel := context.WithTimeout(ctx, headerPatience)
	defer cancel()
	ch, err := e.openSSE(ctx, header)
	if err != nil {
		return false
	}
	ch.hangUp(ctx, nil)
	return true
}

// send implements conn.
func (c *sseConn) send(ctx context.Context, m wire.Message, header http.Header) (sent bool, err error) {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return false, ended(ctx, nil)
	}
	err = c.messages.post(ctx, m, header)
	var own *Error
	return !errors.As(err, &own) || own.MayHaveRun, err
}

// read implements conn.
func (c *sseConn) read(f func(wire.Message)) error {
	defer c.resp.Body.Close()
	return c.client.events(c.resp, func(ev wire.Event) error {
		if ev.Endpoint != "" {
			return c.learn(ev.Endpoint)
		}
		for m, bad := range messages(ev) {
			if bad == nil {
				f(m)
			}
		}
		return nil
	})
}

// learn takes the address for POSTs. What goes there may hold credentials, so it has
// to be of the same origin.
func (c *sseConn) learn(address string) error {
	base := c.client.url
	at, err := base.Parse(address)
	if err != nil {
		return fmt.Errorf("endpoint: %w", withoutURL(err))
	}
	if at.Scheme != base.Scheme || at.Host != base.Host {
		return errors.New("the endpoint for messages is of another origin than the stream")
	}
	c.once.Do(func() {
		c.messages.url = at
		close(c.ready)
	})
	return nil
}

// close implements conn. To end the stream is to end the session.
func (c *sseConn) close() { c.end() }
