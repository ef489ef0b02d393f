package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Connector is a Caller for an upstream of either era: an endpoint over HTTP or a
// program on its standard streams.
type Connector struct {
	opts       Options
	endpoint   *endpoint // nil: it is a program
	program    *program  // nil: it is an endpoint
	sessions   *pool
	detector   *detector
	dialects   map[Era]dialect
	infos      *flights[struct{}, Info]
	audiences  *audiences
	metrics    *metrics
	unregister func()

	gate    gate           // calls, and what else starts something
	running sync.WaitGroup // what they leave behind for a moment
	closing sync.Mutex     // one Close after the other
}

var _ Caller = (*Connector)(nil)

// NewHTTP returns a Caller for an MCP endpoint. It connects when it is used.
// Run must run beside it, and Close end it.
func NewHTTP(o Options) (*Connector, error) {
	o = o.withDefaults()
	at, err := o.address()
	if err := errors.Join(o.check(), err); err != nil {
		return nil, fmt.Errorf("upstream %q: %w", o.Name, err)
	}
	h := newConnector(o)
	h.speakHTTP(at)
	return h.registered()
}

// NewCommand returns a Caller for a program and its arguments, which speaks MCP on
// its standard streams and gets the gateway's environment. It is started when it is
// needed. Of the options those of HTTP mean nothing; MaxEvent limits one message,
// MaxSessions the processes, SessionIdle their life without calls, and
// InitializeTimeout their start, which is a minute by default. Run must run beside
// it, and Close end it.
func NewCommand(command []string, o Options) (*Connector, error) {
	setDefault(&o.InitializeTimeout, time.Minute)
	o = o.withDefaults()
	if len(command) == 0 || command[0] == "" {
		return nil, fmt.Errorf("upstream %q: the command is empty", o.Name)
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("upstream %q: %w", o.Name, err)
	}
	h := newConnector(o)
	h.speakTo(command)
	return h.registered()
}

func newConnector(o Options) *Connector {
	h := &Connector{opts: o, unregister: func() {}}
	h.sessions = newPool(o, &h.running)
	h.audiences = &audiences{opts: o, running: &h.running, all: map[sessionKey]*audience{}}
	h.metrics = newMetrics(h.sessions.size, h.audiences.size)
	h.audiences.metrics = h.metrics
	h.infos = newFlights[struct{}, Info](&h.running)
	return h
}

func (h *Connector) registered() (_ *Connector, err error) {
	if h.opts.Metrics == nil {
		return h, nil
	}
	if h.unregister, err = h.metrics.register(h.opts.Metrics, h.opts.Name); err != nil {
		return nil, fmt.Errorf("upstream %q: %w", h.opts.Name, err)
	}
	return h, nil
}

// speakHTTP makes the dialects over HTTP of the server at the URL.
func (h *Connector) speakHTTP(at *url.URL) {
	h.endpoint = newEndpoint(at, h.opts, &h.running)
	m := h.newModern()
	m.line = h.endpoint
	l := h.newLegacy(Legacy, func(context.Context, http.Header) (line, error) { return h.endpoint, nil })
	l.endpoint = h.endpoint
	sse := h.newLegacy(SSE, func(ctx context.Context, header http.Header) (line, error) { return h.endpoint.openSSE(ctx, header) })
	h.dialects = map[Era]dialect{Modern: m, Legacy: l, SSE: sse}
	h.detector = h.newDetector(func(ctx context.Context, r *Request) (Era, error) { return m.probe(ctx, callHeader(r.Header, Legacy)) }) // Mcp-Param-* are of the call alone
	h.detector.isSSE = func(ctx context.Context, r *Request) bool { return h.endpoint.isSSE(ctx, callHeader(r.Header, Legacy)) }
}

// speakTo makes the dialects over the standard streams of a program.
func (h *Connector) speakTo(command []string) {
	h.program = &program{command: command, opts: h.opts, metrics: h.metrics}
	connect := func(context.Context, http.Header) (line, error) { return h.startChannel() }
	m := h.newModern()
	m.passing = true
	h.dialects = map[Era]dialect{
		Modern: &pooledModern{modern: m, connect: connect, sessions: h.sessions},
		Legacy: h.newLegacy(Legacy, connect),
	}
	h.detector = h.newDetector(func(ctx context.Context, _ *Request) (Era, error) { return h.probeProgram(ctx, m) })
	h.detector.isSSE = func(context.Context, *Request) bool { return false }
}

func (h *Connector) newModern() *modern {
	return &modern{ids: newOwnIDs(), opts: h.opts, tasks: &tasksNeeded{}}
}

func (h *Connector) newLegacy(era Era, connect func(context.Context, http.Header) (line, error)) *legacy {
	return &legacy{era: era, connect: connect, ids: newOwnIDs(), running: &h.running, sessions: h.sessions,
		listing: newFlights[*session, struct{}](&h.running), opts: h.opts, metrics: h.metrics}
}

func (h *Connector) newDetector(probe func(context.Context, *Request) (Era, error)) *detector {
	return &detector{probe: probe, opts: h.opts, metrics: h.metrics, probes: newFlights[string, Era](&h.running), known: h.opts.Era}
}

// Trouble is why the upstream's program cannot be relied on; nil while it can, and
// always for one that is no program.
func (h *Connector) Trouble() error {
	if h.program == nil {
		return nil
	}
	return h.program.trouble()
}

// Call implements Caller.
func (h *Connector) Call(ctx context.Context, r Request, hd Handler) (Reply, error) {
	return h.Send(ctx, r, hd).Outcome()
}

// Send implements Caller.
func (h *Connector) Send(ctx context.Context, r Request, hd Handler) Pending[Reply] {
	if err := h.gate.enter(); err != nil {
		return Failed[Reply](err)
	}
	c := &call{request: r, handler: hd}
	if err := h.begin(ctx, c); err != nil {
		h.gate.leave()
		return Failed[Reply](err)
	}
	return Pending[Reply]{Wait: c.sent.wait, Outcome: func() (Reply, error) {
		defer h.gate.leave()
		return h.outcome(ctx, c)
	}}
}

func (h *Connector) needsClient(ctx context.Context) error {
	if h.opts.NeedsClient && credentialsOf(ctx) == nil {
		return unauthorized(errNoClient)
	}
	return nil
}

// Info implements Caller. Those who ask at once share the answer.
func (h *Connector) Info(ctx context.Context) (Info, error) {
	if err := h.gate.enter(); err != nil {
		return Info{}, err
	}
	defer h.gate.leave()
	return h.infos.do(ctx, struct{}{}, h.ask)
}

func (h *Connector) ask(ctx context.Context) (info Info, err error) {
	defer func() { h.count(err) }()
	era, err := h.detector.era(ctx, &Request{})
	if err != nil {
		return Info{}, err
	}
	info, doubt, err := h.dialects[era].info(ctx)
	if doubt {
		if right := h.other(ctx, era, &Request{}); right != nil {
			info, _, err = right.info(ctx)
		}
	}
	return info, err
}

func (h *Connector) count(err error) {
	if err == nil {
		return
	}
	var e *Error
	if errors.As(err, &e) {
		h.metrics.failures.WithLabelValues(string(e.Kind)).Inc()
	}
}

// Run ends sessions that have been idle for too long, until ctx ends.
func (h *Connector) Run(ctx context.Context) error {
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

func (h *Connector) runOnce(ctx context.Context) {
	if h.gate.enter() != nil {
		return
	}
	defer h.gate.leave()
	h.sessions.endIdle(ctx, h.opts.Now().Add(-h.opts.SessionIdle))
}

// Close implements Caller. An error means that calls are still running when
// ctx ends; their sessions then stay, for whoever may take the calls up again, but
// processes are ended.
func (h *Connector) Close(ctx context.Context) error {
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
	h.sessions.endChannels(ctx)
	if err == nil {
		err = h.settle(ctx)
	}
	if h.endpoint != nil {
		h.endpoint.transport.CloseIdleConnections()
	}
	if err != nil {
		return fmt.Errorf("close upstream %q: %w", h.opts.Name, err)
	}
	return nil
}

// settle waits for what calls have left behind, which ends by itself.
func (h *Connector) settle(ctx context.Context) error {
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
