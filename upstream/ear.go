package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"taskgate/wire"
)

// headerPatience is how long a server may take to refuse a GET. Some send no
// header before there is a first event.
const headerPatience = 2 * time.Second

// listen opens the GET stream of the caller's session and subscribes to
// resources (2025-11-25, basic/transports#listening-for-messages-from-the-server,
// server/resources#subscriptions).
func (l *legacy) listen(ctx context.Context, r ListenRequest, wants <-chan wire.Filter, to *audience) (doubt bool, err error) {
	header := callHeader(r.Header, Legacy)
	s, err := l.sessions.acquire(ctx, l.key(r.request()), r.request(), header, func(ctx context.Context) (*session, error) {
		return l.open(ctx, r.Capabilities.Interactive(), header)
	})
	if err != nil {
		return noLegacy(err), err
	}
	defer l.sessions.release(s, r.request())
	if s.mute() {
		return false, errDeaf
	}
	ear := &ear{legacy: l, session: s, header: header, to: to, hear: to.hear, uris: map[string]bool{}}
	err = ear.run(ctx, wants)
	if errors.Is(err, errSessionLost) {
		l.sessions.drop(s)
		l.metrics.lost.Inc()
	}
	return false, err
}

var errSessionLost = errors.New("the session is lost")

// ear listens in one session.
type ear struct {
	legacy  *legacy
	session *session
	header  http.Header
	to      *audience
	hear    func(method string, params wire.Raw)
	uris    map[string]bool // subscribed to; the value is that it was agreed to
}

// capabilities are what the server has announced.
func (s *session) capabilities() wire.Raw {
	result, _ := wire.ParseObject(s.init)
	return result.Get("capabilities")
}

// mute tells a server that announces nothing which could be listened to.
func (s *session) mute() bool {
	everything := wire.Filter{Tools: true, Prompts: true, Resources: true, URIs: []string{""}}
	return everything.Offered(s.capabilities()).IsEmpty()
}

// run listens until ctx ends or the stream breaks.
func (e *ear) run(ctx context.Context, wants <-chan wire.Filter) error {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	agreed, broke := make(chan struct{}), make(chan error, 1)
	reading.Go(func() { broke <- e.session.line.overhear(ctx, e, func() { close(agreed) }) })
	patience := time.NewTimer(headerPatience)
	defer patience.Stop()
	select {
	case <-agreed:
	case <-patience.C:
	case err := <-broke:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		select {
		case want := <-wants:
			honoured, err := e.subscribe(ctx, want)
			if err != nil {
				return err
			}
			e.to.opened(want, honoured)
		case err := <-broke:
			return err
		case <-ctx.Done():
			e.unsubscribeAll(ctx)
			return ctx.Err()
		}
	}
}

// overhear implements line: it reads the session's GET stream.
func (at *endpoint) overhear(ctx context.Context, e *ear, agreed func()) error {
	resp, err := at.do(ctx, http.MethodGet, nil, e.session.headers(e.header))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := e.session.refusesStream(resp); err != nil {
		return err
	}
	agreed()
	return at.events(resp, func(ev wire.Event) error {
		for m, bad := range messages(ev) {
			switch {
			case bad != nil: // passed over
			case m.IsRequest():
				e.refuse(ctx, m)
			case m.IsNotification():
				e.hear(m.Method, m.Params)
			}
		}
		return nil
	})
}

// refusesStream is why there is no stream, nil when there is.
func (s *session) refusesStream(resp *http.Response) error {
	err := notOK(resp)
	switch {
	case err == nil && !isEventStream(resp):
		return errDeaf // some servers have a page for people there
	case err == nil:
		return nil
	case s.lost(answer{}, err):
		return fmt.Errorf("%w: %w", errSessionLost, err)
	case resp.StatusCode == http.StatusMethodNotAllowed, resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusNotImplemented:
		return errDeaf
	}
	return err
}

// isDeaf tries whether the session has a stream. Who does not refuse it in time
// has one.
func (l *legacy) isDeaf(ctx context.Context, s *session) bool {
	if s.mute() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, headerPatience)
	defer cancel()
	return errors.Is(s.line.overhear(ctx, &ear{legacy: l, session: s, header: s.header, hear: func(string, wire.Raw) {}}, cancel), errDeaf)
}

// refuse answers a request that belongs to no call, so that there is nobody to
// ask (contract 9).
func (e *ear) refuse(ctx context.Context, m wire.Message) {
	answer := wire.Failure(m.ID, wire.Errorf(wire.CodeInvalidRequest, "%.100q did not come on the stream of a call, so it is nobody's to answer", m.Method))
	if m.Method == "ping" {
		answer = wire.Result(m.ID, wire.Raw(`{}`))
	}
	ctx, cancel := context.WithTimeout(ctx, e.legacy.opts.CancelTimeout)
	defer cancel()
	if err := e.session.line.post(ctx, answer, e.session.headers(e.header)); err != nil {
		e.legacy.opts.Log.Debug("upstream did not take an answer", zap.String("upstream", e.legacy.opts.Name), zap.String("method", m.Method))
	}
}

// subscribe makes the subscriptions to resources those of want, and returns what
// of want the server tells about.
func (e *ear) subscribe(ctx context.Context, want wire.Filter) (honoured wire.Filter, err error) {
	offered := want.Offered(e.session.capabilities())
	honoured, honoured.URIs = offered, nil
	for uri := range e.uris {
		if _, wanted := slices.BinarySearch(want.URIs, uri); !wanted {
			e.unsubscribe(ctx, uri)
		}
	}
	for _, uri := range offered.URIs {
		if _, known := e.uris[uri]; !known {
			if err := e.subscribeTo(ctx, uri); err != nil {
				return honoured, err
			}
		}
		if e.uris[uri] {
			honoured.URIs = append(honoured.URIs, uri)
		}
	}
	return honoured, nil
}

func (e *ear) subscribeTo(ctx context.Context, uri string) error {
	a, err := e.legacy.errand(ctx, e.session, e.header, "resources/subscribe", wire.Object{}.With("uri", wire.Quote(uri)))
	switch {
	case e.session.lost(a, err):
		return errSessionLost
	case err != nil:
		return err
	}
	e.uris[uri] = a.Error == nil
	return nil
}

// unsubscribe ends a subscription; should it fail, what is heard is nobody's.
func (e *ear) unsubscribe(ctx context.Context, uri string) {
	if e.uris[uri] {
		_, _ = e.legacy.errand(ctx, e.session, e.header, "resources/unsubscribe", wire.Object{}.With("uri", wire.Quote(uri)))
	}
	delete(e.uris, uri)
}

func (e *ear) unsubscribeAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.legacy.opts.CancelTimeout)
	defer cancel()
	for uri := range e.uris {
		e.unsubscribe(ctx, uri)
	}
}
