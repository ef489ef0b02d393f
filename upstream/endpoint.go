package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"taskgate/internal/h1"
	"taskgate/wire"
)

// endpoint is one MCP endpoint over HTTP: it POSTs messages and reads what
// comes back. Eras, sessions and who may be asked are not its business.
type endpoint struct {
	url       *url.URL
	header    http.Header // of all requests, unless a request says otherwise
	transport transport
	bodies    *wire.Bodies
	peekers   *sync.Pool // of newPeeker
	opts      Options
	running   *sync.WaitGroup // what goes on for a moment after an exchange
}

func newEndpoint(at *url.URL, o Options, running *sync.WaitGroup) *endpoint {
	header := http.Header{"User-Agent": {"taskgate/" + o.Version}}
	copyHeader(header, o.Header)
	return &endpoint{url: at, header: header, transport: newTransport(o), bodies: new(wire.Bodies),
		peekers: &sync.Pool{New: func() any { return newPeeker() }}, opts: o, running: running}
}

// exchange implements line: what belongs to a request is on its response stream.
func (e *endpoint) exchange(ctx context.Context, out outgoing, receive func(wire.Message)) underway[answer] {
	p := &posting{sending: sending{endpoint: e}, reading: reading{id: out.id, receive: receive, seen: out.seen}, abandon: out.abandon}
	r := h1.Request{Method: http.MethodPost, URL: e.url, Header: out.header, Body: wire.Request(out.id, out.method, out.params)}
	if p.abandon != nil {
		r.Abandon = p.giveUp
	}
	p.begin(ctx, r)
	return p
}

// posting is a request on its way, and what comes of it.
type posting struct {
	sending
	reading   reading
	abandon   func() // as in outgoing
	abandoned sync.Once
}

// giveUp is for one that ends early. Its stream ends after that.
func (p *posting) giveUp() {
	if p.sent.Load() && p.abandon != nil {
		p.abandoned.Do(p.abandon)
	}
}

// outcome reads the response. The stream may be closed later, by drain.
func (p *posting) outcome(ctx context.Context) (a answer, err error) {
	resp, err := p.response(ctx)
	if err == nil {
		a, err = p.endpoint.read(resp, &p.reading)
		p.stream.Release()
	}
	switch {
	case ctx.Err() != nil:
		p.giveUp() // here too: the request may have got out since ctx ended
		// A response now is what the upstream says of a cancelled request.
		a, err = answer{}, ended(ctx, nil)
	case isKind(err, TooLarge):
		p.giveUp()
	}
	switch {
	case resp == nil:
	case err != nil || a.whole:
		resp.Body.Close()
	default:
		p.endpoint.drain(resp.Body)
	}
	return a, err
}

// after runs f when ctx ends, unless the function it returns is called before.
func (e *endpoint) after(ctx context.Context, f func()) (stop func()) {
	e.running.Add(1)
	s := context.AfterFunc(ctx, func() {
		defer e.running.Done()
		f()
	})
	return func() {
		if s() {
			e.running.Done()
		}
	}
}

func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("upstream call: %w", ctx.Err())
	}
	return err
}

// within runs a step that comes before the request itself, with a time limit
// of the connector's own, whose passing is an *Error unlike the end of ctx.
func within(ctx context.Context, d time.Duration, step string, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := f(limited)
	var own *Error
	if err != nil && !errors.As(err, &own) && ctx.Err() == nil {
		err = &Error{Kind: TimedOut, Err: fmt.Errorf("no answer within %v", d)}
	}
	return during(step, err)
}

func isKind(err error, kind ErrorKind) bool {
	if err == nil {
		return false
	}
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}

// post implements line.
func (e *endpoint) post(ctx context.Context, m wire.Message, header http.Header) error {
	return e.tell(ctx, http.MethodPost, m.Pieces(), header)
}

// tell sends a request of which only the status matters.
func (e *endpoint) tell(ctx context.Context, method string, body wire.Pieces, header http.Header) error {
	resp, err := e.do(ctx, method, body, header)
	if err != nil {
		return ended(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		e.drain(resp.Body)
		return nil
	}
	defer resp.Body.Close()
	excerpt, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	return refused(resp.StatusCode, excerpt)
}

// do sends an HTTP request and returns once the response's headers are there. Errors
// are *Error, or wrap ctx.Err().
func (e *endpoint) do(ctx context.Context, method string, body wire.Pieces, header http.Header) (*http.Response, error) {
	s := &sending{endpoint: e}
	s.begin(ctx, h1.Request{Method: method, URL: e.url, Header: ownHeader(header), Body: body})
	return s.response(ctx)
}

// How long, and how far, a stream is read on after its response.
const (
	drainTime  = time.Second
	drainBytes = 64 << 10
)

// drain reads to the end of a body, which is about to come, because only then
// the connection can be used again.
func (e *endpoint) drain(body io.ReadCloser) {
	e.running.Go(func() {
		limit := time.AfterFunc(drainTime, func() { body.Close() })
		defer limit.Stop()
		io.Copy(io.Discard, io.LimitReader(body, drainBytes))
		body.Close()
	})
}
