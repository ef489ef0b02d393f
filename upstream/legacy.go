package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"go.uber.org/zap"

	"taskgate/wire"
)

// legacy speaks the revisions that open with initialize (2024-11-05 to
// 2025-11-25), each session over a line of its own.
type legacy struct {
	era      Era // Legacy or SSE
	connect  func(ctx context.Context, header http.Header) (line, error)
	endpoint *endpoint // where calls are found again
	ids      *ownIDs
	running  *sync.WaitGroup
	sessions *pool
	adopted  adopted
	listing  *flights[*session, struct{}] // of tools
	opts     Options
	metrics  *metrics
}

// call implements dialect.
func (l *legacy) call(ctx context.Context, r *Request, h Handler) underway[verdict] {
	return inTurn[verdict](func(ctx context.Context) (verdict, error) { return l.callInSession(ctx, *r, h) })
}

// callInSession sends the request in the caller's session. When the server does not
// know the session any more it has refused the request unread, so a second
// session is opened and the request sent again, once.
func (l *legacy) callInSession(ctx context.Context, r Request, h Handler) (verdict, error) {
	params, err := legacyParams(r)
	if err != nil {
		return verdict{}, err
	}
	r.Params = params
	header := callHeader(r.Header, Legacy)
	open := func(ctx context.Context) (*session, error) { return l.open(ctx, r.Capabilities.Interactive(), header) }
	for attempt := 1; ; attempt++ {
		s, err := l.sessions.acquire(ctx, l.key(r), r, header, open)
		if err != nil {
			return verdict{doubt: noLegacy(err)}, err
		}
		started(h)
		a, err := l.callIn(ctx, s, header, r, h)
		l.sessions.retire(ctx, s)
		l.sessions.release(s, r)
		if !s.lost(a, err) {
			return verdict{a.Reply, a.modernOnly()}, err
		}
		l.sessions.drop(s)
		l.metrics.lost.Inc()
		l.opts.Log.Info("upstream lost the session", zap.String("upstream", l.opts.Name), zap.Int("attempt", attempt))
		if attempt == 2 {
			return verdict{}, &Error{Kind: Refused, Err: errors.New("the session was unknown again right after initialize")}
		}
	}
}

func (l *legacy) key(r Request) sessionKey {
	key := l.opts.Isolation.key(r)
	key.era = l.era
	return key
}

func (l *legacy) callIn(ctx context.Context, s *session, header http.Header, r Request, h Handler) (answer, error) {
	return l.converse(ctx, s, header, r, h, func(callCtx context.Context, c *conversation) (answer, error) {
		l.setLevel(ctx, s, header, r)
		c.place.Shared = l.opts.Isolation == Shared || l.sessions.busy(s)
		return c.send(callCtx, l.needsTask(ctx, s, header, r))
	})
}

// converse runs a conversation from its begin to the end of all that it asks.
func (l *legacy) converse(ctx context.Context, s *session, header http.Header, r Request, h Handler, begin func(context.Context, *conversation) (answer, error)) (answer, error) {
	callCtx, fail := context.WithCancelCause(ctx)
	c := &conversation{legacy: l, session: s, header: s.headers(header), request: r, handler: h, fail: fail,
		questions: map[string]context.CancelFunc{}, begun: s.begun.Load(), place: token{Session: s.id, Version: s.version, Request: r.ID, passing: s.channel != nil}}
	a, err := begin(callCtx, c)
	fail(nil)
	c.streams.Wait() // before asking: they may add to it until they have ended
	c.asking.Wait()
	if left(ctx) && c.found().findable() {
		l.sessions.drop(s) // so that nobody ends it
	}
	a.Undeclared = c.undeclared
	var own *Error
	if err != nil && errors.As(context.Cause(callCtx), &own) {
		err = own
	}
	return a, err
}

// open begins a session that announces the capabilities.
func (l *legacy) open(ctx context.Context, capabilities wire.Raw, header http.Header) (*session, error) {
	var s *session
	err := within(ctx, l.opts.InitializeTimeout, "initialize", func(ctx context.Context) (err error) {
		at, err := l.connect(ctx, header)
		if err != nil {
			return err
		}
		s = newSession(at)
		if err = l.initialize(ctx, s, capabilities, header); err == nil {
			err = at.post(ctx, wire.Message{Method: "notifications/initialized"}, s.headers(header))
		}
		if err != nil {
			at.hangUp(context.WithoutCancel(ctx), s)
		}
		return err
	})
	if err == nil {
		l.metrics.opened.Inc()
	}
	return s, err
}

func (l *legacy) initialize(ctx context.Context, s *session, capabilities wire.Raw, header http.Header) error {
	params := wire.Object{}.With("protocolVersion", wire.Quote(wire.LegacyVersion)).
		With("capabilities", capabilities).With("clientInfo", l.opts.clientInfo())
	a, err := s.line.exchange(ctx, outgoing{
		id: number(handshakeID), method: "initialize", params: params,
		header: ownHeader(header),
	}, func(wire.Message) {}).outcome(ctx)
	if err != nil {
		return err
	}
	if a.Error != nil {
		return &Error{Kind: Incompatible, Status: a.status, Err: wire.ParseError(a.Error)}
	}
	s.id, s.init, s.header, s.client = a.session, a.Result, header, credentialsOf(ctx)
	result, _ := wire.ParseObject(a.Result) // what is no object has no version either
	s.version, _ = wire.String(result.Get("protocolVersion"))
	if !knownLegacy(s.version) {
		return &Error{Kind: Incompatible, Status: a.status, Err: fmt.Errorf("the server wants protocol version %.40q", s.version)}
	}
	return nil
}

// knownLegacy tells the versions that a server may answer to the newest one.
// The first has no Streamable HTTP of its own, but some servers say so.
func knownLegacy(version string) bool {
	switch version {
	case "2024-11-05", "2025-03-26", "2025-06-18", wire.LegacyVersion:
		return true
	}
	return false
}

// hangUp implements line: it tells the server that the session is over, within
// CancelTimeout. The server may well refuse (405).
func (e *endpoint) hangUp(ctx context.Context, s *session) {
	if s.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(WithCredentials(ctx, s.client), e.opts.CancelTimeout)
	defer cancel()
	if err := e.tell(ctx, http.MethodDelete, nil, s.headers(s.header)); err != nil {
		e.opts.Log.Debug("upstream did not end the session", zap.String("upstream", e.opts.Name), LogError(err))
	}
}

// info opens a session of its own, so that the answer is that of the server
// as it is now. A program stays what it is while it runs.
func (l *legacy) info(ctx context.Context) (info Info, doubt bool, err error) {
	s := l.sessions.anyChannel(l.era)
	if s == nil {
		if s, err = l.open(ctx, wire.Raw(`{}`), nil); err != nil {
			return Info{}, noLegacy(err), err
		}
		defer s.line.hangUp(context.WithoutCancel(ctx), s)
	}
	deaf := l.isDeaf(ctx, s)
	o, _ := wire.ParseObject(s.init) // initialize has seen that it is one
	return Info{Capabilities: o.Get("capabilities"), ServerInfo: o.Get("serverInfo"), Instructions: o.Get("instructions"), Deaf: deaf}, false, nil
}

// noLegacy tells whether a session could not be opened in a way that suggests
// that the upstream does not know initialize (any more).
func noLegacy(err error) bool {
	return isKind(err, Incompatible) || wrongEndpoint(err)
}

// modernOnly tells a refusal that only a modern server gives to a legacy
// request. With another status the code would be the server's own invention.
func (a answer) modernOnly() bool {
	if a.Error == nil || a.status != http.StatusBadRequest {
		return false
	}
	code := wire.ParseError(a.Error).Code
	return code == wire.CodeUnsupportedVersion || code == wire.CodeHeaderMismatch
}
