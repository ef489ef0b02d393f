// Package taskrun runs calls. It sends a tools/call to its upstream, waits for
// the first thing that happens, and turns the running call into a record when
// it is slow or asks a question: the call itself is never sent again for that.
// It keeps records that this replica holds up to date, takes over those whose
// holder has died, and ends what cannot go on with an honest error.
package taskrun

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/policy"
	"taskgate/reqcoord"
	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// Options of a Runner. Durations must be positive.
type Options struct {
	Now func() time.Time
	// Lease is how long other replicas trust this one after its last heartbeat.
	Lease time.Duration
	// StoreTimeout bounds each attempt to write a record.
	StoreTimeout time.Duration
	// CancelGrace is how long a cancelled call may take to tell its upstream
	// before the record turns cancelled regardless.
	CancelGrace time.Duration
	// Recheck is how often a record is read again without a hint (contract 10).
	Recheck time.Duration
	// ProgressEvery is the least time between two writes of progress.
	ProgressEvery time.Duration
	// MaxOpen is how many open records one owner may have; 0: no limit.
	MaxOpen int

	Log     *zap.Logger
	Metrics prometheus.Registerer
}

// Runner runs calls.
type Runner struct {
	opts      Options
	store     *taskroute.Store
	coord     *reqcoord.Coordinator
	upstreams map[string]upstream.Caller
	holder    atomic.Pointer[string] // this incarnation; a restart is somebody else
	own       sync.Map               // ids of records whose call runs here, whatever their holder
	metrics   *metrics
	log       *zap.Logger

	background sync.WaitGroup
	quit       chan struct{} // closed when records are no longer waited for
}

// New returns a Runner. upstreams are by name.
func New(store *taskroute.Store, coord *reqcoord.Coordinator, upstreams map[string]upstream.Caller, o Options) *Runner {
	r := &Runner{
		opts: o, store: store, coord: coord, upstreams: upstreams,
		metrics: newMetrics(o.Metrics, coord), log: o.Log, quit: make(chan struct{}),
	}
	r.reincarnate()
	return r
}

// reincarnate makes this replica somebody new, to whom nothing is attributed yet.
func (r *Runner) reincarnate() {
	holder := rand.Text()
	r.holder.Store(&holder)
}

// Call is one tools/call of a client.
type Call struct {
	Owner    taskroute.Owner
	Upstream string
	Tool     string
	Params   wire.Object
	Meta     wire.Meta
	Header   http.Header // sent along to the upstream
	Decision policy.Decision
}

// mayBecomeTask: policy lets it, and this very request declared the extension.
func (c *Call) mayBecomeTask() bool {
	return c.Decision.Task != policy.Forbidden && c.Meta.Capabilities.DeclaresTasks()
}

// needsDeclaration: who did not declare the extension is turned away.
func (c *Call) needsDeclaration() bool {
	return c.Decision.Task == policy.Required || c.Decision.Undeclared == policy.Reject
}

// shares are the limits that policy puts the call under.
func (c *Call) shares() []reqcoord.Share {
	limit := c.Decision.Concurrency
	if limit.Limit == 0 {
		return nil
	}
	share := reqcoord.Share{
		Key:    "rule " + strconv.Quote(c.Decision.Rule),
		Limits: reqcoord.Limits{Concurrency: limit.Limit, Queue: limit.Queue},
	}
	switch limit.Per {
	case policy.PerUpstream:
		share.Key += " at upstream " + strconv.Quote(c.Upstream)
	case policy.PerPrincipal:
		share.Key, share.Who = share.Key+" for this caller", c.Owner.String()
	}
	return []reqcoord.Share{share}
}

// asksIntoTask tells where questions of the upstream go.
func (c *Call) asksIntoTask() bool {
	return c.mayBecomeTask() && c.Decision.Input == policy.InputTask
}

// Observer gets the notifications of a call while its client is still waiting:
// notifications/progress (params without the token) and whatever else the
// upstream sends. It must not block.
type Observer func(method string, params wire.Raw)

// Outcome is what a client is to be told: exactly one of the three.
type Outcome struct {
	Reply *upstream.Reply   // the upstream's own response
	Task  *taskroute.Record // a handle
	Input *InputRequired    // a question, before there is a task
}

// InputRequired is a question of a legacy upstream as basic/patterns/mrtr has it.
type InputRequired struct {
	Requests wire.Object
	State    string
}

// ErrTaskRequired: policy makes this call a task and the request did not
// declare the extension.
var ErrTaskRequired = errors.New("tool runs only as a task")

// Causes of a call's end that are not the upstream's.
var (
	errClientGone = errors.New("client hung up")
	errCancelled  = errors.New("owner cancelled the task")
	errExpired    = errors.New("task has expired")
	errLost       = errors.New("another replica runs the call")
	errShutdown   = errors.New("gateway shut down")
	errTimeout    = errors.New("call timed out")
	errIdle       = errors.New("upstream gave no sign of life")
)

// Call runs c until there is something to tell the client. When ctx ends before
// that, the client has hung up, and the upstream is told to stop. After a
// handle was returned the call no longer depends on ctx.
func (r *Runner) Call(ctx context.Context, c Call, observe Observer) (Outcome, error) {
	if c.needsDeclaration() && !c.Meta.Capabilities.DeclaresTasks() {
		return Outcome{}, ErrTaskRequired
	}
	x, callCtx := r.newRun(ctx, c, observe)
	if c.mayBecomeTask() && c.Decision.PromoteAfter == 0 {
		rec, err := x.enroll(ctx, taskroute.Task)
		if tooMany := new(taskroute.TooManyOpenError); errors.As(err, &tooMany) {
			x.flight.End()
			return Outcome{}, err
		}
		if err == nil {
			go x.dispatch(callCtx, c.Params.Bytes())
			x.detach()
			return Outcome{Task: rec}, nil
		}
	}
	go x.dispatch(callCtx, c.Params.Bytes())
	return x.attend(ctx)
}

// Run keeps the lease, rescues orphans, collects what has expired and carries
// the store's hints, until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { r.every(ctx, r.opts.Lease/3, r.heartbeatOnce) })
	wg.Go(func() { r.every(ctx, r.opts.Lease/2, r.rescueOnce) })
	wg.Go(func() { r.every(ctx, time.Minute, r.collectOnce) })
	wg.Go(func() { r.hints(ctx) })
	wg.Wait()
	return ctx.Err()
}

// Start takes the first lease: without it this replica's records would be
// taken for orphans.
func (r *Runner) Start(ctx context.Context) error { return r.heartbeatOnce(ctx) }

// every calls once now and then every interval. An error is logged: the next
// turn tries again.
func (r *Runner) every(ctx context.Context, interval time.Duration, once func(context.Context) error) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		if err := once(ctx); err != nil && ctx.Err() == nil {
			r.metrics.housekeeping.Inc()
			r.log.Warn("housekeeping failed; it is tried again", zap.Error(err))
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// hints listens for changes made by other replicas, for ever: without them
// everything still works, later (contract 10).
func (r *Runner) hints(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.store.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		r.log.Warn("store hints broke off; records are read again at intervals until they are back", zap.Error(err))
		select {
		case <-time.After(r.opts.Recheck):
		case <-ctx.Done():
		}
	}
}

// heartbeatOnce renews the lease. Once a lease has lapsed it is gone: this
// replica goes on as a new incarnation, and each of its runs takes its record
// over from the old one, unless somebody else was faster.
func (r *Runner) heartbeatOnce(ctx context.Context) error {
	err := r.store.Backend().Heartbeat(ctx, *r.holder.Load(), r.opts.Lease)
	if !errors.Is(err, taskroute.ErrConflict) {
		return err
	}
	r.metrics.lapses.Inc()
	r.log.Warn("this replica's lease had lapsed; other replicas may have given up calls that run here")
	r.reincarnate()
	return r.store.Backend().Heartbeat(ctx, *r.holder.Load(), r.opts.Lease)
}

func (r *Runner) collectOnce(ctx context.Context) error {
	_, err := r.store.Backend().Collect(ctx, r.opts.Now())
	return err
}

// Drain waits until no call runs, or until ctx ends; then it ends what is left
// with an honest error and gives the lease back.
func (r *Runner) Drain(ctx context.Context) error {
	if err := r.coord.Wait(ctx); err != nil {
		r.log.Warn("drain time is over; the calls that still run end as failed", zap.Int("calls", r.coord.Len()))
		r.coord.CancelAll(errShutdown)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.StoreTimeout)
	defer cancel()
	r.waitBackground(last)
	close(r.quit)
	return r.store.Backend().Retire(last, *r.holder.Load())
}

func (r *Runner) waitBackground(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		r.background.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
