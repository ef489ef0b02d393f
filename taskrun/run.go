package taskrun

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"taskgate/reqcoord"
	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// run is one request on its way to an upstream and what becomes of it. Two
// goroutines share it: the connector's, which only reports (the methods of
// upstream.Handler, and dispatch), and one that decides. The latter is the
// client's own goroutine at first (attend) and, once there is a record, one in
// the background (follow).
type run struct {
	r       *Runner
	call    Call
	flight  *reqcoord.Call
	whole   *budget                  // for the call
	idle    *budget                  // between two signs of life
	observe atomic.Pointer[Observer] // nil once nobody waits

	ended    chan ended // the connector is done; capacity 1, sent once
	asked    chan *ask
	overdue  chan string   // keys of questions whose time is over
	followed chan struct{} // closed when follow returns
	progress chan struct{} // capacity 1: message is new
	message  atomic.Pointer[string]

	// Of the deciding goroutine alone.
	id      string // of the record; "" while there is none
	holder  string // the incarnation that holds it
	epoch   int64
	expires time.Time
	pending map[string]*ask // asked of the client, by key
}

// ended is how the connector's work came to its end.
type ended struct {
	reply upstream.Reply
	err   error
}

// ask is a question of a legacy upstream, whose call waits for the answer.
type ask struct {
	method string
	params wire.Raw
	answer chan answer // capacity 1, sent once
}

type answer struct {
	result wire.Raw
	err    *wire.Error
}

func (r *Runner) newRun(ctx context.Context, c Call, observe Observer) (*run, context.Context) {
	flight, ctx := r.coord.Begin(ctx, reqcoord.About{
		Upstream: c.Upstream, Method: "tools/call", Tool: c.Tool, Principal: c.Owner.String(),
	})
	x := &run{
		r: r, call: c, flight: flight,
		whole: newBudget(c.Decision.Timeout, func() { flight.Cancel(errTimeout) }),
		idle:  newBudget(c.Decision.IdleTimeout, func() { flight.Cancel(errIdle) }),
		ended: make(chan ended, 1), asked: make(chan *ask), progress: make(chan struct{}, 1),
		overdue: make(chan string), followed: make(chan struct{}),
		pending: map[string]*ask{},
	}
	if observe != nil {
		x.observe.Store(&observe)
	}
	return x, ctx
}

// dispatch waits for the call's turn, sends it, and reports its end.
func (x *run) dispatch(ctx context.Context, params wire.Raw) {
	reply, err := x.send(ctx, params)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	x.pauseClocks()
	x.flight.End()
	x.ended <- ended{reply, err}
}

func (x *run) send(ctx context.Context, params wire.Raw) (upstream.Reply, error) {
	if err := x.flight.Admit(ctx, x.call.shares()...); err != nil {
		return upstream.Reply{}, err
	}
	x.startClocks()
	return x.r.upstreams[x.call.Upstream].Call(ctx, upstream.Request{
		ID: x.flight.ID, Method: "tools/call", Params: params,
		ClientInfo: x.call.Meta.ClientInfo, Capabilities: x.call.Meta.Capabilities,
		LogLevel: x.call.Meta.LogLevel, Principal: x.call.Owner.String(), Header: x.call.Header,
	}, x)
}

func (x *run) startClocks() {
	x.whole.start()
	x.idle.start()
}

// pauseClocks: waiting for people, or for nothing any more, costs the upstream
// none of its time.
func (x *run) pauseClocks() {
	x.whole.stop()
	x.idle.stop()
}

// Progress implements upstream.Handler.
func (x *run) Progress(params wire.Object) {
	x.idle.refill()
	if observe := x.observe.Load(); observe != nil {
		(*observe)("notifications/progress", params.Bytes())
	}
	text := progressText(params)
	x.message.Store(&text)
	select {
	case x.progress <- struct{}{}:
	default:
	}
}

// Notify implements upstream.Handler. SEP-2663 has no place for other
// notifications on a task, so after promotion they are dropped.
func (x *run) Notify(method string, params wire.Raw) {
	x.idle.refill()
	if observe := x.observe.Load(); observe != nil {
		(*observe)(method, params)
	}
}

// Ask implements upstream.Handler.
func (x *run) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, *wire.Error) {
	x.idle.refill()
	a := &ask{method: method, params: params, answer: make(chan answer, 1)}
	select {
	case x.asked <- a:
	case <-ctx.Done():
		return nil, gone
	}
	select {
	case got := <-a.answer:
		return got.result, got.err
	case <-ctx.Done():
		return nil, gone
	}
}

var gone = wire.Errorf(wire.CodeInternal, "the call that asked has ended")

// statusMessage is what a working record shows.
func (x *run) statusMessage() string {
	if n, waits := x.flight.Ahead(); waits {
		return fmt.Sprintf("Waiting for its turn: number %d in the queue.", n)
	}
	if text := x.message.Load(); text != nil {
		return *text
	}
	return ""
}

// progressText is the status message for a progress notification: its own
// message, else the numbers as they came.
func progressText(params wire.Object) string {
	if m, ok := wire.String(params.Get("message")); ok && m != "" {
		return m
	}
	text := "Progress: " + string(params.Get("progress"))
	if total := params.Get("total"); total != nil {
		text += " of " + string(total)
	}
	return text
}

// enroll makes the call a record, with the questions that are already there.
// It is durable when enroll returns nil (contract 3).
func (x *run) enroll(ctx context.Context, kind taskroute.Kind, prepare ...func(*taskroute.Record) error) (*taskroute.Record, error) {
	rec := x.newRecord(kind)
	for _, f := range prepare {
		if err := f(rec); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, x.r.opts.StoreTimeout)
	defer cancel()
	if err := x.r.create(ctx, rec); err != nil {
		x.r.notEnrolled(rec.ID, err)
		return nil, err
	}
	x.hold(rec)
	x.r.metrics.created.WithLabelValues(x.call.Upstream, string(kind)).Inc()
	return rec, nil
}

// hold notes that this run has the record.
func (x *run) hold(rec *taskroute.Record) {
	x.id, x.holder, x.epoch, x.expires = rec.ID, rec.State.Holder, rec.State.Epoch, rec.State.ExpiresAt()
}

func (x *run) newRecord(kind taskroute.Kind) *taskroute.Record {
	c := &x.call
	rec := taskroute.NewRecord(taskroute.NewID(), c.Owner, kind, *x.r.holder.Load(), x.r.opts.Now())
	rec.State.TTL, rec.State.PollInterval = c.Decision.TTL, c.Decision.PollInterval
	rec.State.Upstream, rec.State.Tool = c.Upstream, c.Tool
	rec.State.StatusMessage = x.statusMessage()
	rec.Request = c.request()
	return rec
}
