// Package app wires the gateway together. It decides nothing: it makes the
// parts that a configuration asks for, starts them, and stops them in order.
package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"taskgate/admin"
	"taskgate/audit"
	"taskgate/auth"
	"taskgate/config"
	"taskgate/legacyfront"
	"taskgate/obs"
	"taskgate/policy"
	"taskgate/proxy"
	"taskgate/reqcoord"
	"taskgate/taskroute"
	"taskgate/taskrun"
	"taskgate/tasks2025"
	"taskgate/tracing"
	"taskgate/upstream"
)

// App is one gateway.
type App struct {
	cfg       config.Config
	log       *zap.Logger
	metrics   *prometheus.Registry
	policy    *policy.Reloader
	advisor   *advisor
	pacer     *policy.Pacer
	backend   taskroute.Backend
	upstreams map[string]upstream.Caller
	coord     *reqcoord.Coordinator
	runner    *taskrun.Runner
	proxy     *proxy.Handler
	legacy    *legacyfront.Front
	admin     *admin.Handler
	callers   *auth.Chain
	tls       *auth.ListenerFiles      // nil: the listener speaks plain HTTP
	audit     *audit.Log               // nil: none
	spans     *sdktrace.TracerProvider // nil: there are none
	tracer    *tracing.Tracer          // nil: none
	upkeep    upkeep

	listener      net.Listener
	private       bool         // nobody but who has made the listener can reach it
	adminListener net.Listener // nil: none
}

// New makes a gateway and binds its addresses. version is shown to upstreams.
// Whatever was opened is closed again when it fails.
func New(ctx context.Context, cfg config.Config, version string, log *zap.Logger) (*App, error) {
	return NewOn(ctx, cfg, version, log, nil)
}

// NewOn is New for a gateway that serves MCP on l, which it closes, instead of the
// address of its configuration.
func NewOn(ctx context.Context, cfg config.Config, version string, log *zap.Logger, l net.Listener) (_ *App, err error) {
	a := &App{listener: l, private: l != nil, cfg: cfg, log: log, metrics: obs.Registry(), pacer: policy.NewPacer(), upstreams: map[string]upstream.Caller{}}
	defer func() {
		if err != nil {
			a.release(context.WithoutCancel(ctx))
		}
	}()
	if a.policy, err = newPolicy(cfg, log); err != nil {
		return nil, err
	}
	if err := a.trace(cfg.Tracing, version); err != nil {
		return nil, err
	}
	if err := a.identify(); err != nil {
		return nil, err
	}
	if err := a.listen(); err != nil {
		return nil, err
	}
	if a.backend, err = openStore(ctx, cfg, log); err != nil {
		return nil, fmt.Errorf("store %s: %w", cfg.Store, err)
	}
	if err := a.dialUpstreams(version); err != nil {
		return nil, err
	}
	return a, a.assemble()
}

// identify makes what tells callers apart.
func (a *App) identify() (err error) {
	if a.callers, err = newChain(a.cfg, &a.upkeep, a.log); err != nil {
		return err
	}
	if a.tls, err = newTLS(a.cfg.TLS, &a.upkeep, a.log); err != nil {
		return err
	}
	a.audit, err = openAudit(a.cfg.Audit, a.log)
	return err
}

func (a *App) listen() (err error) {
	if a.listener == nil {
		if a.listener, err = net.Listen("tcp", a.cfg.Listen); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	if a.cfg.AdminListen == "" {
		return nil
	}
	if a.adminListener, err = net.Listen("tcp", a.cfg.AdminListen); err != nil {
		return fmt.Errorf("adminListen: %w", err)
	}
	return nil
}

func (a *App) dialUpstreams(version string) error {
	for _, u := range a.cfg.Upstreams {
		if len(u.Aggregate) > 0 {
			continue // its members are connected to
		}
		caller, err := newCaller(u, a.cfg, version, &a.upkeep, a.log, a.metrics)
		if err != nil {
			return fmt.Errorf("upstream %q: %w", u.Name, err)
		}
		a.upstreams[u.Name] = caller
	}
	return nil
}

func (a *App) assemble() error {
	cfg := a.cfg
	store, err := newStore(a.backend, cfg, a.log, a.taskEnded)
	if err != nil {
		return err
	}
	limits := map[string]reqcoord.Limits{reqcoord.Everywhere: {Concurrency: cfg.Limits.MaxCalls}}
	if len(cfg.Identity) > 0 {
		limits[reqcoord.EachPrincipal] = reqcoord.Limits{Concurrency: cfg.Limits.MaxCallsPerPrincipal}
	}
	callers := a.traced()
	var endpoints []proxy.Endpoint
	for _, u := range cfg.Upstreams {
		limits[u.Name] = reqcoord.Limits{Concurrency: u.Limits.Concurrency, Queue: u.Limits.Queue, QueueTimeout: u.Limits.QueueTimeout}
		endpoints = append(endpoints, proxy.Endpoint{
			Name: u.Name, Path: u.Path, Caller: callers[u.Name], Members: u.Aggregate, JobPrefix: u.JobPrefix, Resource: resource(cfg, u, a.publicURL()),
			Forward: forwardHeaders(u.ForwardHeaders), ShortToken: shortToken(u.Auth), PerClient: perClient(u.Auth),
		})
	}
	a.coord = reqcoord.New(limits, time.Now)
	a.runner = taskrun.New(store, a.coord, callers, taskrun.Options{
		Now: a.backend.Now, Lease: cfg.Lease, StoreTimeout: cfg.Timeouts.Store, CancelGrace: cfg.Timeouts.Cancel, Recheck: cfg.Timeouts.Recheck, Reread: reread,
		ProgressEvery: time.Second, MaxQuestions: cfg.Limits.MaxQuestions, Took: a.observe, Tracing: a.tracer, Log: a.log, Metrics: a.metrics,
	})
	a.legacy = legacyfront.New(store, legacyfront.Options{
		SessionLife: sessionLife, Kept: legKept, MaxKept: legMaxKept,
		StoreTimeout: cfg.Timeouts.Store, Recheck: cfg.Timeouts.Recheck, KeepAlive: cfg.Timeouts.KeepAlive, WriteTimeout: cfg.Timeouts.Write,
		Extend: tasks2025.Extend(len(cfg.Identity) > 0 || a.private), Now: a.backend.Now, Log: a.log,
	})
	a.advisor = newAdvisor(a.policy.Set, a.listed, a.log)
	a.proxy = proxy.New(endpoints, a.runner, a.coord, proxy.Options{
		MaxBody: int64(cfg.Limits.MaxBodyBytes), MaxDepth: cfg.Limits.MaxJSONDepth, MaxMembers: cfg.Limits.MaxJSONMembers, BufferBytes: int64(cfg.Limits.StreamBufferBytes), BodyTimeout: cfg.Timeouts.Body, WriteTimeout: cfg.Timeouts.Write,
		HoldAfter: cfg.Timeouts.HoldAfter, KeepAlive: cfg.Timeouts.KeepAlive, ForwardTimeout: cfg.Timeouts.Forward,
		InfoTTL: cfg.Timeouts.InfoTTL, InfoWait: cfg.Timeouts.InfoWait,
		Quota: newQuota(cfg), MaxTaskIDs: maxTaskIDs, Recheck: cfg.Timeouts.Recheck,
		Guard:    proxy.Guard{Origins: cfg.AllowedOrigins, Hosts: cfg.AllowedHosts, AnyHost: len(cfg.AllowedHosts) == 0 && !onLoopback(a.listener)},
		Identify: a.callers.Identify, Audit: a.audit, AuditReads: cfg.Audit.Reads,
		Decide: a.policy.Decide, OffersJobs: a.policy.OffersJobs, MakesJobs: a.policy.MakesJobs, Pace: a.pacer.Pace, Learned: a.advisor.learned, PolicyHeaders: cfg.PolicyHeaders, PolicyInMeta: cfg.PolicyInMeta, Tracing: a.tracer, Now: time.Now, Log: a.log, Metrics: a.metrics,
		Legacy: a.legacy.Serve,
	})
	policyMetrics(a.metrics, a.policy, a.pacer)
	a.metrics.MustRegister(newPolicyState(a.policy, a.tools))
	a.admin = admin.New(admin.Sources{Coord: a.coord, Ping: a.backend.Ping, Policy: a.policyStatus, Tools: a.tools, Troubles: a.troubles, Metrics: a.metrics})
	return nil
}

// troubles is what is wrong with upstreams, by name.
func (a *App) troubles() map[string]string {
	all := map[string]string{}
	for name, u := range a.upstreams {
		if t, ok := u.(interface{ Trouble() error }); ok && t.Trouble() != nil {
			all[name] = t.Trouble().Error()
		}
	}
	return all
}

// What no operator had a reason to change yet.
const (
	maxTaskIDs = 1000      // that one listen stream may follow
	reread     = time.Hour // of a running call's record, though no heartbeat has told of a change

	sessionLife = 7 * 24 * time.Hour // of a session that a legacy client has opened
	legKept     = 5 * time.Minute    // how long it can come back for what was said on a stream
	legMaxKept  = 1 << 20            // bytes of one message that is kept for that
)

func onLoopback(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// Endpoints are the URLs that clients use.
func (a *App) Endpoints() []string {
	var urls []string
	for _, path := range a.proxy.Paths() {
		urls = append(urls, scheme(a.cfg)+"://"+a.listener.Addr().String()+path)
	}
	return urls
}

// AdminURL is where health and metrics are; "" when there is no such listener.
func (a *App) AdminURL() string {
	if a.adminListener == nil {
		return ""
	}
	return "http://" + a.adminListener.Addr().String()
}

// release closes what New has opened.
func (a *App) release(ctx context.Context) error {
	var errs []error
	for _, l := range []net.Listener{a.listener, a.adminListener} {
		if l != nil {
			_ = l.Close() // a served listener is closed already
		}
	}
	for name, u := range a.upstreams {
		if err := u.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close upstream %q: %w", name, err))
		}
	}
	if a.backend != nil {
		if err := a.backend.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close store: %w", err))
		}
	}
	errs = append(errs, a.audit.Close())
	a.flushSpans(ctx)
	return errors.Join(errs...)
}
