package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"taskgate/wire"
)

// endpoint is one MCP endpoint over HTTP: it POSTs messages and reads what
// comes back. Eras, sessions and who may be asked are not its business.
type endpoint struct {
	url       *url.URL
	header    http.Header // of all requests, unless a request says otherwise
	transport transport
	bodies    *wire.Bodies
	opts      Options
	running   *sync.WaitGroup // what goes on for a moment after an exchange
}

func newEndpoint(at *url.URL, o Options, running *sync.WaitGroup) *endpoint {
	header := http.Header{"User-Agent": {"taskgate/" + o.Version}}
	copyHeader(header, o.Header)
	return &endpoint{url: at, header: header, transport: newTransport(o), bodies: new(wire.Bodies), opts: o, running: running}
}

// exchange implements line: what belongs to a request is on its response stream.
func (e *endpoint) exchange(ctx context.Context, out outgoing, receive func(wire.Message)) Pending[answer] {
	stream, closeStream := context.WithCancel(context.WithoutCancel(ctx))
	p := &posting{abandon: out.abandon, close: closeStream}
	stop := e.after(ctx, p.giveUp)
	id, seen := out.id, out.seen // the rest of out is not needed any more
	sent := e.begin(stream, http.MethodPost, wire.Request(out.id, out.method, out.params), out.header, &p.sent)
	return Then(sent, func(resp *http.Response, err error) (answer, error) {
		defer stop()
		var a answer
		if err == nil {
			a, err = e.finish(resp, &reading{id: id, receive: receive, seen: seen}, p.close)
		}
		switch {
		case ctx.Err() != nil:
			p.giveUp() // here too: the request may have got out since ctx ended
			// A response now is what the upstream says of a cancelled request.
			return answer{}, ended(ctx, nil)
		case isKind(err, TooLarge):
			p.giveUp()
		case err != nil:
			p.close()
		}
		return a, err
	})
}

// posting is a request on its way, and the stream that comes back.
type posting struct {
	abandon   func() // as in outgoing
	close     func() // ends the stream
	sent      atomic.Bool
	abandoned sync.Once
}

// giveUp ends it early.
func (p *posting) giveUp() {
	if p.sent.Load() && p.abandon != nil {
		p.abandoned.Do(p.abandon)
	}
	p.close()
}

// finish reads the response. The stream may be closed later, by drain.
func (e *endpoint) finish(resp *http.Response, r *reading, closeStream func()) (answer, error) {
	a, err := e.read(resp, r)
	if err != nil {
		resp.Body.Close()
		return answer{}, err
	}
	if a.whole {
		resp.Body.Close()
		closeStream()
	} else {
		e.drain(resp.Body, closeStream)
	}
	return a, nil
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
	var sent atomic.Bool
	stream, closeStream := context.WithCancel(ctx)
	resp, err := e.do(stream, method, body, header, &sent)
	if err != nil {
		closeStream()
		return ended(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		e.drain(resp.Body, closeStream)
		return nil
	}
	defer closeStream()
	defer resp.Body.Close()
	excerpt, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	return refused(resp.StatusCode, excerpt)
}

// do sends an HTTP request and returns once the response's headers are there, as
// begin does.
func (e *endpoint) do(ctx context.Context, method string, body wire.Pieces, header http.Header, sent *atomic.Bool) (*http.Response, error) {
	return e.begin(ctx, method, body, header, sent).Outcome()
}

// begin sends an HTTP request. sent says whether the upstream may have read any of
// it. Errors are *Error, or wrap ctx.Err(). A 401 means that the request was not
// acted on, so it may go out again with other credentials, once; only for that the
// request is kept.
func (e *endpoint) begin(ctx context.Context, method string, body wire.Pieces, header http.Header, sent *atomic.Bool) Pending[*http.Response] {
	full, err := e.headerOf(ctx, method, header)
	if err != nil {
		return Failed[*http.Response](err)
	}
	first := e.attempt(ctx, method, body, full, sent)
	if e.opts.Auth == nil {
		return first
	}
	return Then(first, func(resp *http.Response, err error) (*http.Response, error) {
		if err != nil || resp.StatusCode != http.StatusUnauthorized || !e.opts.Auth.Renew(ctx, full) {
			return resp, err
		}
		resp.Body.Close()
		renewed, err := e.headerOf(ctx, method, header)
		if err != nil {
			return nil, err
		}
		return e.attempt(ctx, method, body, renewed, sent).Outcome()
	})
}

func (e *endpoint) attempt(ctx context.Context, method string, body wire.Pieces, header http.Header, sent *atomic.Bool) Pending[*http.Response] {
	sent.Store(false)
	return Then(e.transport.send(e.newRequest(ctx, method, body, header), sent), func(resp *http.Response, err error) (*http.Response, error) {
		switch {
		case err == nil:
			return resp, nil
		case sent.Load():
			return nil, broken(0, "no response: %w", withoutURL(err))
		}
		return nil, &Error{Kind: Unreachable, Err: withoutURL(err)}
	})
}

// withoutURL takes the URL out of a client error: its query may hold a secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// How long, and how far, a stream is read on after its response.
const (
	drainTime  = time.Second
	drainBytes = 64 << 10
)

// drain reads to the end of a body, which is about to come, because only then
// the connection can be used again.
func (e *endpoint) drain(body io.ReadCloser, closeStream func()) {
	e.running.Go(func() {
		limit := time.AfterFunc(drainTime, closeStream)
		defer limit.Stop()
		io.Copy(io.Discard, io.LimitReader(body, drainBytes))
		body.Close()
		closeStream()
	})
}
