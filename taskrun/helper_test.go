package taskrun

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/internal/bubble"
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
		test(t, newWorld(t))
	})
}

func newWorld(t *testing.T) *world {
	return &world{t: t, store: newFaulty(memstore.New(time.Now)), up: &scripted{}}
}

// world is what replicas share: a store and an upstream.
type world struct {
	t      *testing.T
	store  *faulty
	up     *scripted
	limits map[string]reqcoord.Limits
	owners taskroute.Usage // what each may have in the store; zero: no limit
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
		Recheck: recheck, Reread: time.Hour, ProgressEvery: progressEvery, Log: zap.NewNop(), Metrics: prometheus.NewRegistry()}
	for _, f := range adjust {
		f(&o)
	}
	store, err := taskroute.NewStore(backend, taskroute.Options{Now: time.Now, Tombstone: time.Hour, Limit: w.owners, CacheSize: 16})
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
	for end := time.Now().Add(d); ; bubble.Advance(50 * time.Millisecond) { // the bubble's clock: a look between two steps
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
	used, err := w.store.Backend.Usage(context.Background(), o.String())
	if err != nil {
		w.t.Fatal(err)
	}
	return used.Open
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
