package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"taskgate/wire"
)

// HTTP is an upstream behind Streamable HTTP, of either era.
type HTTP struct {
	opts       Options
	endpoint   *endpoint
	sessions   *pool
	detector   *detector
	legacy     *legacy
	modern     *modern
	infos      *flights[struct{}, Info]
	audiences  *audiences
	metrics    *metrics
	unregister func()

	gate    gate           // calls, and what else starts something
	running sync.WaitGroup // what they leave behind for a moment
	closing sync.Mutex     // one Close after the other
}

var _ Caller = (*HTTP)(nil)

// NewHTTP returns a Caller for an MCP endpoint. It connects when it is used.
// Run must run beside it, and Close end it.
func NewHTTP(o Options) (*HTTP, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("upstream %q: %w", o.Name, err)
	}
	h := &HTTP{opts: o, unregister: func() {}}
	h.assemble()
	if o.Metrics == nil {
		return h, nil
	}
	var err error
	if h.unregister, err = h.metrics.register(o.Metrics, o.Name); err != nil {
		return nil, fmt.Errorf("upstream %q: %w", o.Name, err)
	}
	return h, nil
}

func (h *HTTP) assemble() {
	o := h.opts
	h.endpoint = &endpoint{transport: newTransport(o), opts: o, running: &h.running, name: rand.Text()[:8]}
	h.sessions = &pool{opts: o, opening: newFlights[sessionKey, *session](&h.running), sessions: map[sessionKey]*session{}}
	h.audiences = &audiences{opts: o, running: &h.running, all: map[sessionKey]*audience{}}
	h.metrics = newMetrics(h.sessions.size, h.audiences.size)
	h.audiences.metrics = h.metrics
	h.modern = &modern{endpoint: h.endpoint, opts: o}
	h.legacy = &legacy{endpoint: h.endpoint, sessions: h.sessions, listing: newFlights[*session, struct{}](&h.running), opts: o, metrics: h.metrics}
	h.sessions.end = h.legacy.end
	h.detector = &detector{modern: h.modern, opts: o, metrics: h.metrics, probes: newFlights[string, Era](&h.running), known: o.Era}
	h.infos = newFlights[struct{}, Info](&h.running)
}

// dialect is what the eras have in common. doubt tells that the upstream has
// refused the request unread, as one of the other era would.
type dialect interface {
	call(ctx context.Context, r Request, h Handler) (reply Reply, doubt bool, err error)
	info(ctx context.Context) (info Info, doubt bool, err error)
	// listen is a source. An error is errDeaf, or says how the stream broke.
	listen(ctx context.Context, r ListenRequest, wants <-chan wire.Filter, to *audience) (doubt bool, err error)
}

func (h *HTTP) dialect(era Era) dialect {
	if era == Modern {
		return h.modern
	}
	return h.legacy
}

// Call implements Caller.
func (h *HTTP) Call(ctx context.Context, r Request, hd Handler) (Reply, error) {
	if err := h.gate.enter(); err != nil {
		return Reply{}, err
	}
	defer h.gate.leave()
	if err := h.needsClient(ctx); err != nil {
		return Reply{}, err
	}
	return speak(ctx, h, r, func(d dialect) (Reply, bool, error) { return d.call(ctx, r, hd) })
}

func (h *HTTP) needsClient(ctx context.Context) error {
	if h.opts.NeedsClient && credentialsOf(ctx) == nil {
		return unauthorized(errNoClient)
	}
	return nil
}

// Info implements Caller. Those who ask at once share the answer.
func (h *HTTP) Info(ctx context.Context) (Info, error) {
	if err := h.gate.enter(); err != nil {
		return Info{}, err
	}
	defer h.gate.leave()
	return h.infos.do(ctx, struct{}{}, func(ctx context.Context) (Info, error) {
		return speak(ctx, h, Request{}, func(d dialect) (Info, bool, error) { return d.info(ctx) })
	})
}

// speak runs f in the upstream's era, and once more in the other one when that
// turns out to be the right one.
func speak[T any](ctx context.Context, h *HTTP, r Request, f func(dialect) (T, bool, error)) (v T, err error) {
	defer func() { h.count(err) }()
	era, err := h.detector.era(ctx, r)
	if err != nil {
		return v, err
	}
	v, doubt, err := f(h.dialect(era))
	if !doubt {
		return v, err
	}
	now, probeErr := h.detector.again(ctx, era, r)
	if probeErr != nil || now == era {
		return v, err
	}
	v, _, err = f(h.dialect(now))
	return v, err
}

func (h *HTTP) count(err error) {
	var e *Error
	if errors.As(err, &e) {
		h.metrics.failures.WithLabelValues(string(e.Kind)).Inc()
	}
}

// Run ends sessions that have been idle for too long, until ctx ends.
func (h *HTTP) Run(ctx context.Context) error {
	tick := time.NewTicker(max(h.opts.SessionIdle/2, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			h.runOnce(ctx)
		}
	}
}

func (h *HTTP) runOnce(ctx context.Context) {
	if h.gate.enter() != nil {
		return
	}
	defer h.gate.leave()
	h.sessions.endIdle(ctx, h.opts.Now().Add(-h.opts.SessionIdle))
}

// Close implements Caller. An error means that calls are still running when
// ctx ends; their sessions then stay, for whoever may take the calls up again.
func (h *HTTP) Close(ctx context.Context) error {
	h.audiences.close()
	first, err := h.gate.close(ctx)
	if first {
		h.unregister()
	}
	h.closing.Lock()
	defer h.closing.Unlock()
	if err == nil {
		err = h.settle(ctx) // a session may still be on its way into the pool
	}
	h.sessions.endIdle(ctx, h.opts.Now().Add(time.Second))
	if err == nil {
		err = h.settle(ctx)
	}
	h.endpoint.transport.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("close upstream %q: %w", h.opts.Name, err)
	}
	return nil
}

// settle waits for what calls have left behind, which ends by itself.
func (h *HTTP) settle(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		h.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("upstream is slow to end: %w", ctx.Err())
	}
}
