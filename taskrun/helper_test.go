package taskrun

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/policy"
	"taskgate/reqcoord"
	"taskgate/taskroute"
	"taskgate/taskroute/memstore"
	"taskgate/upstream"
	"taskgate/wire"
)

// Times of every replica under test.
const (
	leaseTime     = 10 * time.Second
	storeTimeout  = time.Second
	cancelGrace   = 3 * time.Second
	recheck       = 5 * time.Second
	progressEvery = 700 * time.Millisecond
	promoteAfter  = 2 * time.Second
)

// inBubble runs a test on a clock of its own. The bubble also proves that
// nothing is left behind: a goroutine that does not end fails the test.
func inBubble(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &world{t: t, store: newFaulty(memstore.New(time.Now)), up: &scripted{}})
	})
}

// world is what replicas share: a store and an upstream.
type world struct {
	t      *testing.T
	store  *faulty
	up     *scripted
	limits map[string]reqcoord.Limits
}

// replica is a Runner as a process would have it.
type replica struct {
	*Runner
	t       *testing.T
	up      *scripted
	backend *faulty
	stop    func() // ends it like a crash: nothing is drained
}

// replica starts a Runner over the shared store.
func (w *world) replica(adjust ...func(*Options)) *replica { return w.replicaOn(w.store, adjust...) }

// replicaOn starts one that sees the shared store through a switch of its own.
func (w *world) replicaOn(backend *faulty, adjust ...func(*Options)) *replica {
	w.t.Helper()
	o := Options{Now: time.Now, Lease: leaseTime, StoreTimeout: storeTimeout, CancelGrace: cancelGrace,
		Recheck: recheck, ProgressEvery: progressEvery, Log: zap.NewNop(), Metrics: prometheus.NewRegistry()}
	for _, f := range adjust {
		f(&o)
	}
	store, err := taskroute.NewStore(backend, taskroute.Options{Now: time.Now, Tombstone: time.Hour, CacheSize: 16})
	if err != nil {
		w.t.Fatal(err)
	}
	r := New(store, reqcoord.New(w.limits, time.Now), map[string]upstream.Caller{"up": w.up}, o)
	if err := r.Start(w.t.Context()); err != nil {
		w.t.Fatalf("start: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Run(ctx)
	}()
	rep := &replica{Runner: r, t: w.t, up: w.up, backend: backend}
	rep.stop = func() { cancel(); <-done }
	w.t.Cleanup(rep.shutDown)
	return rep
}

// shutDown ends a replica as the program does.
func (r *replica) shutDown() {
	if closed(r.draining) {
		return
	}
	r.backend.set(works)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Drain(ctx); err != nil {
		r.t.Errorf("drain: %v", err)
	}
	r.stop()
}

var (
	ann = taskroute.Owner{Tenant: "acme", Subject: "ann"}
	bob = taskroute.Owner{Tenant: "acme", Subject: "bob"}
)

const everything = `{"elicitation":{},"sampling":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// aCall is a call of ann's that may become a task after promoteAfter.
func aCall(adjust ...func(*Call)) Call {
	params, err := wire.ParseObject(wire.Raw(`{"name":"report","arguments":{"n":9007199254740993}}`))
	if err != nil {
		panic(err)
	}
	c := Call{Owner: ann, Upstream: "up", Tool: "report", Params: params,
		Meta: wire.Meta{Version: wire.Version, Capabilities: wire.ParseCapabilities(wire.Raw(everything))},
		Decision: policy.Decision{Task: policy.Optional, PromoteAfter: promoteAfter, Timeout: 10 * time.Minute, TTL: time.Hour,
			PollInterval: time.Second, Input: policy.InputTask, MaxAttempts: 1}}
	for _, f := range adjust {
		f(&c)
	}
	return c
}

func by(o taskroute.Owner) func(*Call) { return func(c *Call) { c.Owner = o } }
func undeclared(c *Call) {
	c.Meta.Capabilities = wire.ParseCapabilities(wire.Raw(`{"elicitation":{},"tasks":{}}`))
}
func declaring(capabilities string) func(*Call) {
	return func(c *Call) { c.Meta.Capabilities = wire.ParseCapabilities(wire.Raw(capabilities)) }
}
func task(m policy.Mode) func(*Call) { return func(c *Call) { c.Decision.Task = m } }
func after(d time.Duration) func(*Call) {
	return func(c *Call) { c.Decision.PromoteAfter = d }
}
func atOnce(c *Call) { c.Decision.Task, c.Decision.PromoteAfter = policy.Required, 0 }
func mrtr(c *Call)   { c.Decision.Input = policy.InputMRTR }
func timeout(d time.Duration) func(*Call) {
	return func(c *Call) { c.Decision.Timeout = d }
}
func idle(d time.Duration) func(*Call) {
	return func(c *Call) { c.Decision.IdleTimeout = d }
}
func answerWithin(d time.Duration, then policy.InputExpiry) func(*Call) {
	return func(c *Call) { c.Decision.InputTimeout = policy.InputTimeout{After: d, Then: then} }
}
func reruns(attempts int) func(*Call) {
	return func(c *Call) { c.Decision.OnLoss, c.Decision.MaxAttempts = policy.LossReruns, attempts }
}
func ttl(d time.Duration) func(*Call) { return func(c *Call) { c.Decision.TTL = d } }
func arguments(json string) func(*Call) {
	return func(c *Call) { c.Params = c.Params.With("arguments", wire.Raw(json)) }
}

// client is somebody who waits for the outcome of a call.
type client struct {
	t      *testing.T
	hangUp context.CancelFunc
	done   chan struct{}
	out    Outcome
	err    error

	mu   sync.Mutex
	seen []string // notifications
}

func (r *replica) call(adjust ...func(*Call)) *client {
	return r.ask(func(ctx context.Context, observe Observer) (Outcome, error) {
		return r.Call(ctx, aCall(adjust...), observe)
	})
}

// resume is a retry with a requestState.
func (r *replica) resume(state, responses string, adjust ...func(*Call)) *client {
	return r.ask(func(ctx context.Context, _ Observer) (Outcome, error) {
		return r.Resume(ctx, aCall(adjust...), state, object(r.t, responses))
	})
}

func (r *replica) ask(f func(context.Context, Observer) (Outcome, error)) *client {
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{t: r.t, hangUp: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.out, c.err = f(ctx, c.observe)
	}()
	synctest.Wait()
	return c
}

func (c *client) observe(method string, params wire.Raw) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, method+" "+string(params))
}

// waits tells that the client has no outcome yet.
func (c *client) waits() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// outcome is what the client was told, at most a minute from now.
func (c *client) outcome() (Outcome, error) {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		c.t.Fatal("the client was told nothing for a minute")
	}
	return c.out, c.err
}

func (c *client) reply() string {
	c.t.Helper()
	out, err := c.outcome()
	if err != nil || out.Reply == nil {
		c.t.Fatalf("got %+v, %v; want the upstream's reply", out, err)
	}
	return string(out.Reply.Result) + string(out.Reply.Error)
}

// handle is the id of the task that the client was given.
func (c *client) handle() string {
	c.t.Helper()
	out, err := c.outcome()
	if err != nil || out.Task == nil {
		c.t.Fatalf("got %+v, %v; want a task", out, err)
	}
	return out.Task.ID
}

// input is the question that the client was asked instead.
func (c *client) input() *InputRequired {
	c.t.Helper()
	out, err := c.outcome()
	if err != nil || out.Input == nil {
		c.t.Fatalf("got %+v, %v; want a question", out, err)
	}
	return out.Input
}

func (c *client) fails(want error) {
	c.t.Helper()
	if out, err := c.outcome(); !errors.Is(err, want) {
		c.t.Fatalf("got %+v, %v; want the error %v", out, err, want)
	}
}

// get is the record as its owner sees it now.
func (r *replica) get(id string) *taskroute.Record {
	r.t.Helper()
	synctest.Wait()
	rec, err := r.Get(context.Background(), ann, id)
	if err != nil {
		r.t.Fatalf("get: %v", err)
	}
	return rec
}

// becomes waits at most for d until the task has the status.
func (r *replica) becomes(id string, want taskroute.Status, d time.Duration) *taskroute.Record {
	r.t.Helper()
	for end := time.Now().Add(d); ; time.Sleep(50 * time.Millisecond) { // the bubble's clock: a look between two steps
		synctest.Wait()
		rec, err := r.Get(context.Background(), ann, id)
		if err == nil && rec.State.Status == want {
			return rec
		}
		if !time.Now().Before(end) {
			r.t.Fatalf("not %s within %v: %+v, %v", want, d, rec, err)
		}
	}
}

func (r *replica) answer(id, responses string) {
	r.t.Helper()
	if err := r.Update(context.Background(), ann, id, object(r.t, responses)); err != nil {
		r.t.Fatalf("tasks/update: %v", err)
	}
}

func (r *replica) cancelTask(id string) {
	r.t.Helper()
	if err := r.Cancel(context.Background(), ann, id); err != nil {
		r.t.Fatalf("tasks/cancel: %v", err)
	}
}

func (r *replica) counted(name string) float64 {
	r.t.Helper()
	families, err := r.opts.Metrics.(*prometheus.Registry).Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "taskgate_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// open is how many open records of the owner the store has.
func (w *world) open(o taskroute.Owner) int {
	w.t.Helper()
	synctest.Wait()
	n, err := w.store.Backend.CountOpen(context.Background(), o.String())
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func object(t *testing.T, json string) wire.Object {
	t.Helper()
	o, err := wire.ParseObject(wire.Raw(json))
	if err != nil {
		t.Fatalf("%s: %v", json, err)
	}
	return o
}

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %v\nwant %v", what, got, want)
	}
}

// scripted is an upstream whose part the test plays: each call stays until the
// test, or its context, ends it.
type scripted struct {
	mu    sync.Mutex
	calls []*played
}

// played is one call at the scripted upstream.
type played struct {
	upstream.Request
	t       *testing.T
	ctx     context.Context
	handler upstream.Handler
	end     chan ended
	deaf    chan struct{} // not nil: a cancelled call stays until it is closed
	left    chan struct{} // closed when the call is over
}

// Call implements upstream.Caller.
func (s *scripted) Call(ctx context.Context, r upstream.Request, h upstream.Handler) (upstream.Reply, error) {
	p := &played{Request: r, ctx: ctx, handler: h, end: make(chan ended, 1), left: make(chan struct{})}
	defer close(p.left)
	s.mu.Lock()
	s.calls = append(s.calls, p)
	s.mu.Unlock()
	select {
	case e := <-p.end:
		return e.reply, e.err
	case <-ctx.Done():
		if p.deaf != nil {
			<-p.deaf
		}
		return upstream.Reply{}, fmt.Errorf("upstream call: %w", ctx.Err())
	}
}

// Info implements upstream.Caller.
func (s *scripted) Info(context.Context) (upstream.Info, error) { return upstream.Info{}, nil }

// Listen implements upstream.Caller.
func (s *scripted) Listen(context.Context, upstream.ListenRequest) (*upstream.Subscription, error) {
	return nil, &upstream.Error{Kind: upstream.Closed, Err: errors.New("it is not listened to here")}
}

// Close implements upstream.Caller.
func (s *scripted) Close(context.Context) error { return nil }

// count is how many calls have come so far.
func (s *scripted) count() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// nth is the nth call, counted from 1.
func (w *world) nth(n int) *played {
	w.t.Helper()
	if got := w.up.count(); got < n {
		w.t.Fatalf("%d calls reached the upstream, want %d", got, n)
	}
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	p := w.up.calls[n-1]
	p.t = w.t
	return p
}

func reply(result string) upstream.Reply { return upstream.Reply{Result: wire.Raw(result)} }

func (p *played) returns(result string) {
	p.end <- ended{reply: reply(result)}
	synctest.Wait()
}

func (p *played) fails(rpcError string) {
	p.end <- ended{reply: upstream.Reply{Error: wire.Raw(rpcError)}}
	synctest.Wait()
}

// cause is why the gateway ended the call; nil while it has not.
func (p *played) cause() error {
	synctest.Wait()
	return context.Cause(p.ctx)
}

// question is one the upstream has asked.
type question struct {
	t        *testing.T
	withdraw context.CancelFunc
	done     chan struct{}
	result   wire.Raw
	err      *wire.Error
}

func (p *played) asks(params string) *question { return p.asksFor(wire.MethodElicit, params) }

func (p *played) asksFor(method, params string) *question {
	ctx, cancel := context.WithCancel(p.ctx)
	q := &question{t: p.t, withdraw: cancel, done: make(chan struct{})}
	go func() {
		defer close(q.done)
		defer cancel()
		q.result, q.err = p.handler.Ask(ctx, method, wire.Raw(params))
	}()
	synctest.Wait()
	return q
}

// answer is what the upstream got, "" while it waits.
func (q *question) answer() string {
	synctest.Wait()
	select {
	case <-q.done:
	default:
		return ""
	}
	if q.err != nil {
		return "error: " + q.err.Message
	}
	return string(q.result)
}

// mood is how a faulty store takes its calls.
type mood int

const (
	works    mood = iota
	down          // nothing is done
	mute          // what was asked is done, but the reply is lost
	hangs         // nothing is done until the caller gives up
	late          // like hangs, but a write is done all the same, once the mood changes
	stubborn      // done once the mood changes, though the caller may have given up by then
)

var errDown = errors.New("the store is down")

// faulty is a Backend with moods, for all operations or for some.
type faulty struct {
	taskroute.Backend

	mu      sync.Mutex
	mood    map[string]mood
	changed chan struct{} // closed with the next change of mood
	asked   map[string]int
	talks   bool // replicas learn of each other's writes
	ears    []func(id string)
}

func newFaulty(b taskroute.Backend) *faulty {
	return &faulty{Backend: b, mood: map[string]mood{}, changed: make(chan struct{}), asked: map[string]int{}}
}

var operations = []string{"create", "get", "replace", "orphans", "heartbeat", "retire", "count"}

// set changes the mood for the operations, for all when none is named.
func (f *faulty) set(m mood, ops ...string) {
	if len(ops) == 0 {
		ops = operations
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, op := range ops {
		f.mood[op] = m
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// count is how often the operation was asked for.
func (f *faulty) count(op string) int {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[op]
}

func (f *faulty) enter(op string) (mood, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[op]++
	return f.mood[op], f.changed
}

func (f *faulty) do(ctx context.Context, op string, work func(context.Context) error) error {
	switch m, changed := f.enter(op); m {
	case down:
		return errDown
	case mute:
		if err := work(ctx); err != nil {
			return err
		}
		return errDown
	case stubborn:
		<-changed
		return work(context.WithoutCancel(ctx))
	case late:
		if op == "create" || op == "replace" {
			go func() {
				<-changed
				_ = work(context.WithoutCancel(ctx))
			}()
		}
		fallthrough
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	return work(ctx)
}

func (f *faulty) Create(ctx context.Context, d taskroute.Doc, nonce string) error {
	return f.do(ctx, "create", func(ctx context.Context) error { return f.Backend.Create(ctx, d, nonce) })
}

func (f *faulty) Get(ctx context.Context, id string, parts ...taskroute.Part) (d taskroute.Doc, err error) {
	err = f.do(ctx, "get", func(ctx context.Context) error {
		d, err = f.Backend.Get(ctx, id, parts...)
		return err
	})
	return d, err
}

func (f *faulty) Replace(ctx context.Context, prev uint64, d taskroute.Doc, nonce string) error {
	return f.do(ctx, "replace", func(ctx context.Context) error {
		err := f.Backend.Replace(ctx, prev, d, nonce)
		if err == nil {
			f.tell(d.ID)
		}
		return err
	})
}

// Hints implements taskroute.Backend.
func (f *faulty) Hints(ctx context.Context, hear func(id string)) error {
	f.mu.Lock()
	f.ears = append(f.ears, hear)
	f.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (f *faulty) tell(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.talks {
		return
	}
	for _, hear := range f.ears {
		hear(id)
	}
}

func (f *faulty) Orphans(ctx context.Context, cursor string, limit int) (o []taskroute.Orphan, next string, err error) {
	err = f.do(ctx, "orphans", func(ctx context.Context) error {
		o, next, err = f.Backend.Orphans(ctx, cursor, limit)
		return err
	})
	return o, next, err
}

func (f *faulty) Heartbeat(ctx context.Context, holder string, lease time.Duration) error {
	return f.do(ctx, "heartbeat", func(ctx context.Context) error { return f.Backend.Heartbeat(ctx, holder, lease) })
}

func (f *faulty) Retire(ctx context.Context, holder string) error {
	return f.do(ctx, "retire", func(ctx context.Context) error { return f.Backend.Retire(ctx, holder) })
}

func (f *faulty) CountOpen(ctx context.Context, owner string) (n int, err error) {
	err = f.do(ctx, "count", func(ctx context.Context) error {
		n, err = f.Backend.CountOpen(ctx, owner)
		return err
	})
	return n, err
}
