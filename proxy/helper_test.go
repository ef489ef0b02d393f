package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/auth"
	"taskgate/internal/mcptest"
	"taskgate/internal/pipe"
	"taskgate/policy"
	"taskgate/reqcoord"
	"taskgate/taskroute"
	"taskgate/taskroute/memstore"
	"taskgate/taskrun"
	"taskgate/upstream"
	"taskgate/wire"
)

// deadline is how long a test waits for what must happen.
const deadline = 20 * time.Second

// gateway is a Handler over a scripted upstream and a store in memory.
type gateway struct {
	*Handler
	t        *testing.T
	up       *caller
	backend  *switchable
	server   *http.Server
	listener *pipe.Listener // nil: real TCP
	url      string
}

// setup is what a test may change before the gateway is made.
type setup struct {
	Options
	decision policy.Decision
	up       *caller
	pipes    bool // instead of TCP, which has no place in a bubble
}

func newGateway(t *testing.T, adjust ...func(*setup)) *gateway {
	t.Helper()
	s := &setup{
		Options: Options{
			MaxBody: 10 << 20, BodyTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
			Pace: policy.NewPacer().Pace, Learned: func() {}, MaxDepth: 100, MaxMembers: 1000, BufferBytes: 1 << 20, HoldAfter: 500 * time.Millisecond, KeepAlive: 15 * time.Second, ForwardTimeout: time.Minute,
			InfoTTL: 5 * time.Minute, InfoWait: 2 * time.Second,
			Quota: Quota{Streams: 10, PrincipalStreams: 10, EarlyPolls: 1000}, MaxTaskIDs: 10, Recheck: 5 * time.Second,
			Identify: func(r *http.Request, _ *auth.Resource) (auth.Identity, error) {
				return auth.Identity{Principal: auth.Principal{Tenant: "acme", Subject: r.Header.Get("X-Caller")}}, nil
			},
			Now: time.Now, Log: zap.NewNop(),
		},
		decision: policy.Decision{Task: policy.Optional, PromoteAfter: time.Minute, TTL: time.Hour, PollInterval: time.Second,
			Input: policy.InputTask, MaxAttempts: 1},
		up: &caller{},
	}
	for _, f := range adjust {
		f(s)
	}
	if s.OffersJobs == nil {
		s.OffersJobs = func(string) bool { return s.decision.Undeclared == policy.Jobs }
		s.MakesJobs = func(string, string) bool { return s.decision.Undeclared == policy.Jobs }
	}
	if s.Decide == nil {
		s.Decide = func(policy.Query) policy.Decision { return s.decision }
	}
	s.Metrics = prometheus.NewRegistry()
	g := &gateway{t: t, up: s.up, backend: &switchable{Backend: memstore.New(time.Now)}}
	g.build(s)
	g.serve(s.pipes)
	return g
}

func (g *gateway) build(s *setup) {
	store, err := taskroute.NewStore(g.backend, taskroute.Options{Now: time.Now, Tombstone: time.Hour, CacheSize: 16})
	if err != nil {
		g.t.Fatal(err)
	}
	coord := reqcoord.New(nil, time.Now)
	runner := taskrun.New(store, coord, map[string]upstream.Caller{"up": s.up}, taskrun.Options{
		Now: time.Now, Lease: time.Minute, StoreTimeout: time.Second, CancelGrace: time.Second,
		Recheck: 5 * time.Second, Reread: time.Hour, ProgressEvery: time.Second, Log: s.Log, Metrics: s.Metrics,
	})
	if err := runner.Start(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
	g.Handler = New([]Endpoint{{Name: "up", Path: "/mcp", Caller: s.up}}, runner, coord, s.Options)
}

// serve serves until the test ends; what is left then of calls is ended.
func (g *gateway) serve(inPipes bool) {
	var l net.Listener
	if g.url = "http://localhost/mcp"; inPipes {
		g.listener = pipe.New()
		l = g.listener
	} else {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			g.t.Fatal(err)
		}
		l, g.url = tcp, "http://"+tcp.Addr().String()+"/mcp"
	}
	g.server = &http.Server{Handler: g.Handler, ReadHeaderTimeout: deadline}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.server.Serve(l)
	}()
	g.t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		g.backend.set(nil)
		if err := g.runner.Drain(ended); err != nil {
			g.t.Errorf("drain: %v", err)
		}
		_ = g.server.Close()
		<-done
	})
}

// client is one that declares everything, of the given caller.
func (g *gateway) client(caller string) *mcptest.Client {
	c := mcptest.NewClient(g.url, mcptest.TasksAndInput)
	c.Header.Set("X-Caller", caller)
	if g.listener != nil {
		c.HTTP.Transport.(*http.Transport).DialContext = g.listener.Dial
	}
	g.t.Cleanup(c.Close)
	return c
}

// ok is the reply of a call that has one.
func (g *gateway) ok(r mcptest.Reply, err error) mcptest.Reply {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

// caller is an upstream.Caller whose answers a test writes.
type caller struct {
	call func(ctx context.Context, r upstream.Request, h upstream.Handler) (upstream.Reply, error)
	list func(ctx context.Context, r upstream.Request, h upstream.Handler) (upstream.Reply, error) // of tools
	info func(ctx context.Context) (upstream.Info, error)
	hear func(ctx context.Context, r upstream.ListenRequest) (*upstream.Subscription, error)

	mu       sync.Mutex
	requests []upstream.Request
}

func (c *caller) Call(ctx context.Context, r upstream.Request, h upstream.Handler) (upstream.Reply, error) {
	if r.Method == "tools/list" { // the gateway asks that by itself
		if c.list != nil {
			return c.list(ctx, r, h)
		}
		return result(`{"tools":[]}`), nil
	}
	c.mu.Lock()
	c.requests = append(c.requests, r)
	c.mu.Unlock()
	if s, ok := h.(upstream.Starter); ok {
		s.Started()
	}
	if c.call == nil {
		return result(`{"content":[]}`), nil
	}
	return c.call(ctx, r, h)
}

func (c *caller) Send(ctx context.Context, r upstream.Request, h upstream.Handler) upstream.Pending[upstream.Reply] {
	return upstream.Later(func() (upstream.Reply, error) { return c.Call(ctx, r, h) })
}

func (c *caller) Info(ctx context.Context) (upstream.Info, error) {
	if c.info == nil {
		return upstream.Info{}, errors.New("not written")
	}
	return c.info(ctx)
}

func (c *caller) Listen(ctx context.Context, r upstream.ListenRequest) (*upstream.Subscription, error) {
	if c.hear == nil {
		return nil, errors.New("not written")
	}
	return c.hear(ctx, r)
}

func (c *caller) Resume(context.Context, wire.Raw, upstream.Request, upstream.Handler) (upstream.Reply, error) {
	return upstream.Reply{}, errors.New("not written")
}

func (c *caller) Close(context.Context) error { return nil }

func (c *caller) got() []upstream.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]upstream.Request(nil), c.requests...)
}

func result(json string) upstream.Reply { return upstream.Reply{Result: wire.Raw(json)} }

// waits is an upstream that answers when it is cancelled, with an error.
func waits(ctx context.Context, _ upstream.Request, _ upstream.Handler) (upstream.Reply, error) {
	<-ctx.Done()
	return upstream.Reply{}, ctx.Err()
}

// switchable is a Backend that can be down.
type switchable struct {
	taskroute.Backend
	reads atomic.Int64

	mu  sync.Mutex
	err error
}

func (s *switchable) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *switchable) down() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *switchable) Create(ctx context.Context, d taskroute.Doc, nonce string) error {
	if err := s.down(); err != nil {
		return err
	}
	return s.Backend.Create(ctx, d, nonce)
}

func (s *switchable) Get(ctx context.Context, id string, parts ...taskroute.Part) (taskroute.Doc, error) {
	s.reads.Add(1)
	if err := s.down(); err != nil {
		return taskroute.Doc{}, err
	}
	return s.Backend.Get(ctx, id, parts...)
}

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %v\nwant %v", what, got, want)
	}
}

// raw sends bytes over a connection of their own and reads the answer.
func (g *gateway) raw(head string, body io.Reader) (*http.Response, []byte) {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.url[len("http://"):len(g.url)-len("/mcp")])
	if err != nil {
		g.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(deadline))
	go func() { // until the answer is there; nobody may have wanted all of it
		_, _ = io.WriteString(conn, head)
		_, _ = io.Copy(conn, body)
	}()
	return readResponse(g.t, conn)
}
