// Package taskrun runs calls. It sends a tools/call to its upstream, waits for
// the first thing that happens, and turns the running call into a record when
// it is slow or asks a question: the call itself is never sent again for that.
// It keeps records that this replica holds up to date, takes over those whose
// holder has died, and ends what cannot go on with an honest error.
package taskrun

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
	"taskgate/tracing"
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
	// Recheck is how often somebody who waits reads a record again without a hint
	// (contract 10), and how often a failed promotion is tried again.
	Recheck time.Duration
	// Reread is how often the record of a running call is read again though no
	// heartbeat has told of a change. It is for a store that has lost what it was
	// to tell, and so may be long: many calls run at once.
	Reread time.Duration
	// ProgressEvery is the least time between two writes of progress.
	ProgressEvery time.Duration
	// MaxQuestions is how many questions of one call may want an answer at once;
	// 0: no limit.
	MaxQuestions int
	// Took is told how long calls took at their upstream, but for those that asked
	// a question; may be nil.
	Took func(upstream, tool string, took time.Duration)
	// Tracing makes the spans of runs; nil: there are none.
	Tracing *tracing.Tracer

	Log     *zap.Logger
	Metrics prometheus.Registerer
}

// Runner runs calls.
type Runner struct {
	opts      Options
	store     *taskroute.Store
	coord     *reqcoord.Coordinator
	upstreams map[string]upstream.Caller
	lease     atomic.Pointer[lease]
	own       sync.Map // *run by id: records whose call runs here, whatever their holder
	claiming  sync.Map // ids of records that are being claimed here
	metrics   *metrics
	log       *zap.Logger

	crew     crew          // runs the calls
	busy     group         // what a drain waits for beside the calls in flight
	draining chan struct{} // closed when no record is to be taken up any more
	quit     chan struct{} // closed when no write is to be repeated any more
}

// New returns a Runner. upstreams are by name.
func New(store *taskroute.Store, coord *reqcoord.Coordinator, upstreams map[string]upstream.Caller, o Options) *Runner {
	r := &Runner{
		opts: o, store: store, coord: coord, upstreams: upstreams,
		metrics: newMetrics(o.Metrics, coord), log: o.Log,
		draining: make(chan struct{}), quit: make(chan struct{}),
	}
	r.crew = crew{next: make(chan func()), over: r.quit}
	r.lease.Store(&lease{holder: rand.Text()}) // somebody new, of whom nobody has heard
	return r
}

// Call is one tools/call of a client, or another request during which an upstream
// may ask (basic/patterns/mrtr, Supported Requests).
type Call struct {
	Owner    taskroute.Owner
	Upstream string
	// Method is "" for tools/call, the only one that may become a task.
	Method string
	// Tool is the tool, prompt or resource that is asked for.
	Tool     string
	Params   wire.Object
	Meta     wire.Meta
	Header   http.Header // sent along to the upstream
	Decision policy.Decision
	Origin   string // the span of the request, see tracing.Origin; "": none
}

// mayBecomeTask: policy lets it, and this very request declared the extension.
func (c *Call) mayBecomeTask() bool {
	return c.Decision.Task != policy.Forbidden && c.Meta.Capabilities.DeclaresTasks()
}

// needsDeclaration: who did not declare the extension is turned away.
func (c *Call) needsDeclaration() bool {
	return c.Decision.Task == policy.Required || c.Decision.Undeclared == policy.Reject
}

// method is Method, written out.
func (c *Call) method() string { return cmp.Or(c.Method, "tools/call") }

// shares are the limits that policy puts the call under.
func (c *Call) shares() []reqcoord.Share {
	limit := c.Decision.Concurrency
	if limit.Limit == 0 {
		return nil
	}
	share := reqcoord.Share{
		Key:    "rule " + strconv.Quote(c.Decision.Rule),
		Limits: reqcoord.Limits{Concurrency: limit.Limit, Queue: limit.Queue, QueueTimeout: limit.Wait},
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
	errTaken      = fmt.Errorf("%w: %w", errLost, upstream.ErrLeave)
	errLeft       = fmt.Errorf("%w: %w", errShutdown, upstream.ErrLeave) // for a call that somebody will take up again
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
	r.busy.enter()
	defer r.busy.leave()
	if c.isShared() && c.isFresh() {
		if out, done, err := r.share(ctx, c, observe); done {
			return out, err
		}
	}
	x, callCtx := r.newRun(ctx, c, observe)
	promoteAfter := c.Decision.PromoteAfter
	if c.mayBecomeTask() && promoteAfter == 0 {
		if err := x.flight.Room(c.shares()...); err != nil { // before it costs the store anything
			x.flight.End()
			return Outcome{}, err
		}
		rec, err := x.enroll(ctx, taskroute.Task)
		switch {
		case err == nil:
			x.detach() // first: what the upstream says from now on is the task's
			r.crew.run(func() { x.dispatch(callCtx, x.call.Params) })
			return Outcome{Task: rec}, nil
		case ctx.Err() != nil, overLimit(err):
			x.flight.End()
			return Outcome{}, err
		}
		promoteAfter = r.opts.Recheck
	}
	r.crew.run(func() { x.dispatch(callCtx, x.call.Params) })
	return x.attend(ctx, callCtx, promoteAfter)
}
