package taskrun

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"taskgate/reqcoord"
	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// run is one request on its way to an upstream and what becomes of it. Two
// goroutines share it: the connector's, which only reports (the methods of
// upstream.Handler, and dispatch), and one that decides. The latter is the
// client's own goroutine at first (attend) and, once there is a record, one in
// the background that is there only while there is news (follow).
type run struct {
	r       *Runner
	call    Call
	flight  *reqcoord.Call
	whole   budget                   // for the call
	idle    budget                   // between two signs of life
	observe atomic.Pointer[Observer] // nil once nobody waits

	mail     mailbox
	ended    chan struct{} // closed when the connector is done
	how      *ended        // it has ended, by then
	asked    chan struct{} // capacity 1: there is something in asks
	message  atomic.Pointer[string]
	token    atomic.Pointer[wire.Raw] // by which the call can be found again; nil: it cannot
	hasAsked atomic.Bool
	asking   sync.Mutex
	asks     []*ask      // under asking: questions that nobody has taken yet
	hasTurn  atomic.Bool // or needs none
	sent     time.Time   // of the connector's goroutine; zero while it waits for its turn

	resuming wire.Raw    // the token that an earlier holder of the record left; nil: the call is sent
	promised bool        // its client was promised an outcome before it was sent, perhaps by another replica
	kept     atomic.Bool // it has a record
	again    atomic.Bool // policy lets the call be sent again

	// Of the deciding goroutine alone.
	id      string // of the record; "" while there is none
	holder  string // the incarnation that holds it
	epoch   int64
	rounds  int // questions in the record
	expires time.Time
	reread  time.Time         // when the record is to be read whatever happens
	alarm   *time.Timer       // for look
	saved   time.Time         // when progress was last written
	due     bool              // newer progress will be
	placed  bool              // the record shows a place in the queue
	pending map[string]*ask   // asked of the client, by key; nil before there is one
	known   map[string]string // keys of what the call had asked before it was resumed, by the upstream's id
	watch   *taskroute.Watcher
	span    trace.Span // of the time with the record
}

// ended is how the connector's work came to its end.
type ended struct {
	reply upstream.Reply
	kind  string // resultType of reply.Result; "" from a legacy upstream
	err   error
}

// ask is a question of a legacy upstream, whose call waits for the answer.
type ask struct {
	upstream.Question
	answer chan answer     // capacity 1, sent once
	gone   <-chan struct{} // closed when nobody wants the answer any more
	until  time.Time       // when the time for the answer is over; zero: never
}

type answer struct {
	result wire.Raw
	err    *wire.Error
}

func (r *Runner) newRun(ctx context.Context, c Call, observe Observer) (*run, context.Context) {
	x := &run{
		r: r, call: c, span: noSpan(),
		ended: make(chan struct{}), asked: make(chan struct{}, 1),
	}
	x.mail.add(0) // who calls is awake
	x.flight, ctx = r.coord.Begin(ctx, about(&x.call))
	cancel := x.flight.Cancel
	x.whole = newBudget(c.Decision.Timeout, cancel, errTimeout)
	x.idle = newBudget(c.Decision.IdleTimeout, cancel, errIdle)
	if observe != nil {
		x.observe.Store(&observe)
	}
	return x, ctx
}

func about(c *Call) reqcoord.About {
	return reqcoord.About{Upstream: c.Upstream, Method: c.method(), Tool: c.Tool, Principal: c.Owner.String()}
}

// dispatch waits for the call's turn, sends it, and reports its end. It waits for the
// answer itself, which may take hours, and not in what it calls: the stack is then
// nearly empty, and the collector makes it small.
func (x *run) dispatch(ctx context.Context, params wire.Object) {
	sent := x.begin(ctx, params)
	sent.Wait()
	x.report(ctx, x.outcome(ctx, params, sent))
	if x.mail.add(changed) {
		x.follow()
	}
}

// report tells how the call has ended.
func (x *run) report(ctx context.Context, end ended) {
	x.measure(end, context.Cause(ctx))
	if cause := context.Cause(ctx); end.err != nil && cause != nil {
		end.err = cause
	}
	x.whole.close()
	x.idle.close()
	x.flight.End()
	x.how = &end
	close(x.ended)
}

func (x *run) send(ctx context.Context, id uint64, params wire.Object) upstream.Pending[upstream.Reply] {
	return x.r.upstreams[x.call.Upstream].Send(ctx, x.call.toUpstream(id, x.flight.Principal, params), x)
}

// measure tells how long the call took. A call that asked took as long as people
// did, and one that was cut short says nothing, unless it ran out of time.
func (x *run) measure(end ended, cause error) {
	known := end.err == nil && end.kind != wire.ResultInputRequired || errors.Is(cause, errTimeout)
	if x.r.opts.Took != nil && x.call.Method == "" && known && !x.sent.IsZero() && !x.hasAsked.Load() {
		x.r.opts.Took(x.call.Upstream, x.call.Tool, time.Since(x.sent))
	}
}

func (c *Call) toUpstream(id uint64, principal string, params wire.Object) upstream.Request {
	return upstream.Request{
		ID: id, Method: c.method(), Params: params,
		ClientInfo: c.Meta.ClientInfo, Capabilities: c.Meta.Capabilities,
		LogLevel: c.Meta.LogLevel, Principal: principal, Header: c.Header,
	}
}

// Started implements upstream.Starter: from here on the upstream is using its time.
func (x *run) Started() {
	if x.sent.IsZero() {
		x.sent = time.Now()
	}
	x.startClocks()
}

func (x *run) startClocks() {
	x.whole.start()
	x.idle.start()
}

// pauseClocks: waiting for people costs the upstream none of its time.
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
	x.tell(advance)
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
func (x *run) Ask(ctx context.Context, q upstream.Question) (wire.Raw, *wire.Error) {
	x.idle.refill()
	x.hasAsked.Store(true)
	withdrawn := make(chan struct{})
	a := &ask{Question: q, answer: make(chan answer, 1), gone: withdrawn}
	x.ask(a)
	select {
	case got := <-a.answer:
		return got.result, got.err
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), upstream.ErrLeave) { // else it stays open, for who goes on with the call
			close(withdrawn)
			x.wake()
		}
		return nil, gone
	}
}

var gone = wire.Errorf(wire.CodeInternal, "the call that asked has ended")

// statusMessage is what a working record shows.
func (x *run) statusMessage() string {
	n, waits := x.flight.Ahead()
	if x.placed = waits; waits {
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
