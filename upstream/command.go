package upstream

import (
	"context"
	"errors"
	"net/http"

	"taskgate/wire"
)

// startChannel starts a process of the program.
func (h *Connector) startChannel() (*channel, error) {
	p, err := h.program.start()
	if err != nil {
		return nil, err
	}
	return newChannel(p, h.opts, &h.running), nil
}

// probeProgram asks server/discover of a process that is thrown away, because the
// first request pins some servers to an era. One that does not answer, or ends, is
// a server that does not know the request (2026-07-28,
// basic/transports/stdio#backward-compatibility).
func (h *Connector) probeProgram(ctx context.Context, m *modern) (Era, error) {
	p, err := h.program.start()
	if err != nil {
		return "", err
	}
	p.expectEnd()
	at := newChannel(p, h.opts, &h.running)
	defer at.hangUp(ctx, nil)
	a, err := m.over(at).discover(ctx, nil)
	switch {
	case ctx.Err() != nil:
		return "", ended(ctx, nil)
	case err != nil:
		return Legacy, nil
	}
	return eraOf(a.Reply), nil
}

// pooledModern speaks 2026-07-28 over lines that have to be opened. A request
// stands alone there too, but who shares a process is for Isolation to say.
type pooledModern struct {
	modern   *modern
	connect  func(ctx context.Context, header http.Header) (line, error)
	sessions *pool
}

// over is the same dialect on a line.
func (d *modern) over(at line) *modern {
	there := *d
	there.line = at
	return &there
}

// bare is what of a request says who shares its process: what its caller can be
// asked does not matter, for questions are results.
func bare(r Request) Request { return Request{ID: r.ID, Principal: r.Principal} }

func (d *pooledModern) acquire(ctx context.Context, r Request) (*session, error) {
	key := d.modern.opts.Isolation.key(bare(r))
	key.era = Modern
	return d.sessions.acquire(ctx, key, bare(r), nil, d.open)
}

// open starts a process and waits until it answers.
func (d *pooledModern) open(ctx context.Context) (*session, error) {
	at, err := d.connect(ctx, nil)
	if err != nil {
		return nil, err
	}
	s := newSession(at)
	a, err := d.modern.over(at).discover(ctx, nil)
	if err == nil && eraOf(a.Reply) != Modern {
		err = &Error{Kind: Incompatible, Err: errors.New("server/discover: the server does not speak " + wire.Version)}
	}
	if err != nil {
		at.hangUp(ctx, s)
		return nil, err
	}
	s.init = a.Result
	return s, nil
}

func (d *pooledModern) call(ctx context.Context, r *Request, h Handler) underway[verdict] {
	return inTurn[verdict](func(ctx context.Context) (verdict, error) { return d.callOver(ctx, *r, h) })
}

func (d *pooledModern) callOver(ctx context.Context, r Request, h Handler) (verdict, error) {
	for attempt := 1; ; attempt++ {
		s, err := d.acquire(ctx, r)
		if err != nil {
			return verdict{doubt: isKind(err, Incompatible)}, err
		}
		v, err := d.modern.over(s.line).call(ctx, &r, h).outcome(ctx)
		d.sessions.retire(ctx, s)
		d.sessions.release(s, bare(r))
		if !errors.Is(err, errNotSent) || attempt == 2 {
			return v, err
		}
		d.sessions.drop(s)
	}
}

func (d *pooledModern) resume(context.Context, token, Request, Handler) (Reply, error) {
	return Reply{}, errPassed()
}

// errPassed is why a call cannot be found again.
func errPassed() *Error { return broken(0, "the process that ran the call is gone") }

func (d *pooledModern) info(ctx context.Context) (info Info, doubt bool, err error) {
	s := d.sessions.anyChannel(Modern)
	if s == nil {
		if s, err = d.open(ctx); err != nil {
			return Info{}, isKind(err, Incompatible), err
		}
		defer s.line.hangUp(ctx, s)
	}
	return answer{Reply: Reply{Result: s.init}}.info()
}

func (d *pooledModern) listen(ctx context.Context, r ListenRequest, wants <-chan wire.Filter, to *audience) (doubt bool, err error) {
	s, err := d.acquire(ctx, r.request())
	if err != nil {
		return isKind(err, Incompatible), err
	}
	defer d.sessions.release(s, bare(r.request()))
	return d.modern.over(s.line).listen(ctx, r, wants, to)
}
