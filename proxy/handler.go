// Package proxy is the HTTP front: it reads one message, checks it before
// anything is done for it, hands it to the method's function, and writes one
// answer. Errors become a wire answer in answerError and nowhere else.
package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/audit"
	"taskgate/auth"
	"taskgate/policy"
	"taskgate/reqcoord"
	"taskgate/taskrun"
	"taskgate/tracing"
	"taskgate/upstream"
	"taskgate/wire"
)

// Options of a Handler. Zero values are not defaults: every one must be set.
type Options struct {
	// MaxBody is the largest request body in bytes.
	MaxBody int64
	// MaxDepth is how deep a body may nest, MaxMembers how many members all its
	// objects may have together.
	MaxDepth   int
	MaxMembers int
	// BufferBytes bounds the notifications that wait for a slow client.
	BufferBytes int64
	// BodyTimeout bounds the reading of a body.
	BodyTimeout time.Duration
	// WriteTimeout bounds each write to a client.
	WriteTimeout time.Duration
	// HoldAfter is when a waiting client that accepts SSE gets headers and a
	// first comment; KeepAlive is the time between comments from then on.
	HoldAfter time.Duration
	KeepAlive time.Duration
	// ForwardTimeout bounds requests other than tools/call, which policy bounds.
	ForwardTimeout time.Duration
	// InfoTTL is how long an upstream's discover data are served from cache,
	// InfoWait how long the first client waits for them.
	InfoTTL  time.Duration
	InfoWait time.Duration
	// Quota is how much callers may ask for.
	Quota Quota
	// MaxTaskIDs is how many tasks one listen stream may follow, and how many
	// resources. Recheck is how often tasks are read without a hint.
	MaxTaskIDs int
	Recheck    time.Duration
	// Guard says which browsers and host names get in.
	Guard Guard
	// Identify says who sent a request to the resource.
	Identify func(*http.Request, *auth.Resource) (auth.Identity, error)
	// Audit is told of every request that changes something or is not let in;
	// with AuditReads, of the others too. nil: nobody is.
	Audit      *audit.Log
	AuditReads bool
	// Decide is the policy.
	Decide func(policy.Query) policy.Decision
	// OffersJobs tells whether calls to the upstream can become jobs, MakesJobs
	// whether those of a tool can, whatever their arguments and callers are.
	OffersJobs func(upstream string) bool
	MakesJobs  func(upstream, tool string) bool
	// Pace is how long a tool takes.
	Pace func(upstream, tool string) policy.Pace
	// Learned is told when an upstream has listed tools. It must not block.
	Learned func()
	// PolicyHeaders are the request headers that policy may look at.
	PolicyHeaders []string
	// PolicyInMeta lets clients know which rule decided.
	PolicyInMeta bool
	// Tracing makes the spans of requests; nil: there are none.
	Tracing *tracing.Tracer
	// Legacy serves the clients of 2025-11-25 and earlier. The message is zero
	// for GET and DELETE.
	Legacy func(http.ResponseWriter, *http.Request, *Visit, wire.Message)

	Now     func() time.Time
	Log     *zap.Logger
	Metrics prometheus.Registerer
}

// Handler serves the MCP endpoints.
type Handler struct {
	opts    Options
	routes  map[string]*route // by path
	runner  *taskrun.Runner
	coord   *reqcoord.Coordinator
	methods map[string]method
	unruled policy.Decision
	docs    map[string][]byte // public documents by path
	metrics *metrics
	quotas  *quotas
	bodies  wire.Bodies
	closing chan struct{} // closed when streams are to end

	detached sync.WaitGroup // streams whose handler has returned
}

// method answers one request: with a result, or with an error that answerError
// knows. Notifications before that go through the responder.
type method func(ctx context.Context, x *exchange, out *responder) (wire.Raw, error)

// New returns a Handler. endpoints say which upstream is behind which path.
func New(endpoints []Endpoint, runner *taskrun.Runner, coord *reqcoord.Coordinator, o Options) *Handler {
	h := &Handler{opts: o, routes: map[string]*route{}, runner: runner, coord: coord,
		unruled: unruled(), docs: documents(endpoints), quotas: newQuotas(o.Quota), closing: make(chan struct{})}
	h.metrics = newMetrics(o.Metrics, h.quotas)
	for _, e := range endpoints {
		h.routes[e.Path] = newRoute(e, o)
	}
	h.join(endpoints)
	h.methods = map[string]method{
		"server/discover": h.discover,
		"tools/call":      h.callTool,
		"prompts/get":     h.callOther,
		"resources/read":  h.callOther,
		"tasks/get":       h.getTask,
		"tasks/update":    h.updateTask,
		"tasks/cancel":    h.cancelTask,
		"tasks/list":      h.listTasks,

		"subscriptions/listen": h.listen,
	}
	for _, gone := range []string{ // removed from this revision, or from the extension
		"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
	} {
		h.methods[gone] = notFound
	}
	return h
}

// Endpoint is one upstream and where clients find it.
type Endpoint struct {
	Name   string
	Path   string
	Caller upstream.Caller
	// Members, instead of a Caller, are the names of the endpoints that this one
	// joins: their tools and prompts are called name__tool here.
	Members []string
	// JobPrefix begins the names of the tools for jobs.
	JobPrefix string
	// Resource is the endpoint as OAuth sees it.
	Resource auth.Resource
	// Forward lists all that the upstream gets of the client's own headers.
	Forward []ForwardHeader
	// ShortToken is for upstreams that get the client's token.
	ShortToken ShortToken
	// PerClient: the upstream answers on behalf of clients only, so nothing is
	// asked of it before there is one.
	PerClient bool
}

// CloseStreams ends long-lived streams, each with its proper response.
func (h *Handler) CloseStreams() { close(h.closing) }

// WaitStreams waits until those that net/http serves no longer have ended, or until
// ctx ends.
func (h *Handler) WaitStreams(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		h.detached.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Warm asks every upstream what it is, so that the first discover is quick.
func (h *Handler) Warm(ctx context.Context) {
	for _, r := range h.routes {
		if !r.PerClient && r.joined == nil {
			r.info.refresh(ctx)
		}
	}
}

func notFound(_ context.Context, x *exchange, _ *responder) (wire.Raw, error) {
	return nil, wire.Errorf(wire.CodeMethodNotFound, "Method not found: %s is not part of %s", x.msg.Method, wire.Version)
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if doc, ok := h.docs[req.URL.Path]; ok {
		h.serveDocument(w, req, doc)
		return
	}
	out := newResponder(w, req.Header, &h.opts)
	out.detachable = req.ProtoMajor == 1 && req.ProtoMinor == 1
	began := time.Now()
	x, err := h.admit(w, req)
	if x != nil {
		out.id = x.msg.ID
	}
	switch {
	case err != nil:
		h.beginSpan(req.Context(), x, began)
		h.finish(req.Context(), out, x, nil, err)
	case isSessionMethod(req) || x.isLegacy():
		h.opts.Legacy(w, req, &x.Visit, x.msg)
	case x.msg.IsNotification(): // none is defined on HTTP; some clients send them
		w.WriteHeader(http.StatusAccepted)
	default:
		h.answer(req.Context(), x, out, began)
	}
}

func (h *Handler) answer(ctx context.Context, x *exchange, out *responder, began time.Time) {
	ctx = h.beginSpan(ctx, x, began)
	result, err := h.call(ctx, x, out)
	if out.rest != nil {
		if h.detach(ctx, x, out) {
			return
		}
		result, err = out.rest(ctx)
	}
	h.finish(ctx, out, x, result, err)
}

func (h *Handler) call(ctx context.Context, x *exchange, out *responder) (wire.Raw, error) {
	front := x.onBehalf(ctx)
	if t := h.jobToolOf(front, x); t != nil {
		return h.callJobTool(front, x, out, t)
	}
	if err := h.descend(front, x); err != nil {
		return nil, err
	}
	if x.route == x.front {
		return h.methodOf(x)(front, x, out)
	}
	return h.methodOf(x)(x.onBehalf(ctx), x, out) // it is another upstream's by now
}

func (h *Handler) methodOf(x *exchange) method {
	if m := h.methods[x.msg.Method]; m != nil {
		return m
	}
	if strings.HasPrefix(x.msg.Method, "tasks/") { // reserved: no upstream is to make anything of it
		return notFound
	}
	if x.route.joined != nil {
		return h.joinedMethod(x.msg.Method)
	}
	return h.forward
}

// finish answers. What the audit log has to say is written first: nobody holds
// an answer that is not on record.
func (h *Handler) finish(ctx context.Context, out *responder, x *exchange, result wire.Raw, err error) {
	end := endingOf(err)
	msg := wire.Result(out.id, result)
	if err != nil {
		msg = wire.Message{ID: out.id, Error: end.raw}
		h.note(x, err)
		challenge(out, x, err)
		out.retryAfter = retryAfter(err)
	}
	h.record(x, end)
	if end.status == http.StatusTooManyRequests {
		h.quotas.slow(ctx, x.owner())
	}
	out.finish(end.status, msg)
	h.metrics.answered(x, end)
	x.endSpan(end)
}

// note logs what an operator should know of; a client's own mistakes are not.
func (h *Handler) note(x *exchange, err error) {
	if x == nil || !isOurFault(err) {
		return
	}
	h.opts.Log.Warn("request failed", zap.String("upstream", x.route.Name), zap.String("method", wire.Label(x.msg.Method)), upstream.LogError(err))
}

// Paths lists the endpoints.
func (h *Handler) Paths() []string {
	var paths []string
	for p := range h.routes {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}
