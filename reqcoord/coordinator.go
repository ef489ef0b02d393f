// Package reqcoord is the request-coordinator table: the calls that are in
// flight in this process. It gives each an id of our own toward its upstream,
// a way to cancel it, and its turn when an upstream is busy. Nothing here is
// durable and nothing here is needed once a call has ended; what was promised
// to a client lives in taskroute.
package reqcoord

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Limits bound the calls to one upstream, or of one principal.
type Limits struct {
	Concurrency  int           // calls at once; 0: no limit
	Queue        int           // calls that may wait for a turn
	QueueTimeout time.Duration // how long each may wait; 0: until its caller gives up
}

// Coordinator is the table. The zero value is not usable; call New.
type Coordinator struct {
	now func() time.Time

	mu     sync.Mutex
	lastID uint64
	calls  map[uint64]*Call
	idle   chan struct{}    // closed when calls becomes empty; nil when nobody waits
	limits map[string]Share // by upstream, Everywhere or EachPrincipal
	gates  map[gateID]*gate // those in use
	spare  sync.Pool        // of *gate, those that were
}

// Names under which New takes limits that are not an upstream's. Who waits for a
// turn counts too.
const (
	Everywhere    = ""  // of all upstreams together
	EachPrincipal = "*" // of one principal, at all upstreams
)

// New returns an empty table. limits are by upstream name, Everywhere or
// EachPrincipal; what is not in it has none. With EachPrincipal nobody gets all
// the turns, or places to wait, that principals share.
func New(limits map[string]Limits, now func() time.Time) *Coordinator {
	c := &Coordinator{now: now, calls: map[uint64]*Call{}, limits: map[string]Share{}, gates: map[gateID]*gate{}}
	for name, l := range limits {
		c.limits[name] = Share{Key: keyOf(name), Limits: l}
	}
	return c
}

// keyOf is what errors call the limits under this name.
func keyOf(name string) string {
	switch name {
	case Everywhere:
		return "this gateway"
	case EachPrincipal:
		return "this caller"
	}
	return "upstream " + strconv.Quote(name)
}

// About says what a call is; it is shown in snapshots.
type About struct {
	Upstream  string
	Method    string
	Tool      string // "" unless Method is tools/call
	Principal string // who waits; turns are given to principals one after the other
}

// Call is one request in flight.
type Call struct {
	About
	ID      uint64 // the JSON-RPC id toward the upstream; unique in this process
	Started time.Time

	coord  *Coordinator
	cancel context.CancelCauseFunc
	turns  []turn
	room   [most]turn            // where they are
	place  atomic.Pointer[place] // nil: it does not wait
}

// turn is one that a call has.
type turn struct {
	gate  *gate
	began time.Time
}

// place is one in a queue.
type place struct {
	gate   *gate
	waiter *waiter
}

// Begin enters a call. The returned context is the call's own: it keeps the
// values of ctx but ends only by Cancel or End, so that the call can outlive
// the request that made it.
func (c *Coordinator) Begin(ctx context.Context, about About) (*Call, context.Context) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	call := &Call{About: about, ID: c.lastID, Started: c.now(), coord: c, cancel: cancel}
	c.calls[call.ID] = call
	return call, ctx
}

// NextID is a fresh id for the same call: each attempt toward an upstream has
// its own.
func (c *Call) NextID() uint64 {
	c.coord.mu.Lock()
	defer c.coord.mu.Unlock()
	c.coord.lastID++
	return c.coord.lastID
}

// Share is a further limit that a call is under, together with all others that
// name the same key.
type Share struct {
	Key    string // named in errors
	Who    string // a part of the key that is not, "" when all share the limit
	Limits Limits
}

func (s Share) id() gateID { return gateID{s.Key, s.Who} }

type gateID struct{ key, who string }

// Admit waits for the call's turn: among its principal's, in this process, under
// each share, then at its upstream. So nobody keeps an upstream busy by waiting,
// and nobody fills the process alone. Errors: *OverloadError, or the cause of ctx.
func (c *Call) Admit(ctx context.Context, shares ...Share) error {
	return c.admit(ctx, shares, false)
}

// AdmitPromised is Admit for a call whose client has been promised an outcome: it
// waits however many do already, and for as long as it takes. Such calls take no
// place in the queue from others. Errors: the cause of ctx.
func (c *Call) AdmitPromised(ctx context.Context, shares ...Share) error {
	return c.admit(ctx, shares, true)
}

// most is how many limits a call is under, unless policy names several.
const most = 4

func (c *Call) admit(ctx context.Context, policy []Share, promised bool) error {
	c.turns = c.room[:0]
	for _, s := range c.under(make([]Share, 0, most), policy) {
		if promised {
			s.Limits.QueueTimeout = 0
		}
		if err := c.admitTo(ctx, s, promised); err != nil {
			return err
		}
	}
	return nil
}

// Room is the error with which Admit would refuse the call at this moment; nil
// while there is a turn, or a place to wait for one. It is for who has to promise
// something before the call is admitted, and a hint: somebody else may be faster.
func (c *Call) Room(shares ...Share) error {
	for _, s := range c.under(make([]Share, 0, most), shares) {
		g := c.coord.enterGate(s)
		err := g.room(c.Principal)
		c.coord.leaveGate(g)
		if err != nil {
			return err
		}
	}
	return nil
}

// under adds to all what limits the call.
func (c *Call) under(all, policy []Share) []Share {
	limits := c.coord.limits
	own := limits[EachPrincipal]
	own.Who = c.Principal
	all = append(all, own, limits[Everywhere])
	all = append(append(all, policy...), limits[c.Upstream])
	return slices.DeleteFunc(all, func(s Share) bool { return s.Limits.Concurrency == 0 })
}

func (c *Call) admitTo(ctx context.Context, s Share, promised bool) error {
	g := c.coord.enterGate(s)
	w, err := g.enter(c.Principal, promised)
	if w != nil {
		c.place.Store(&place{g, w})
		err = g.wait(ctx, w, s.Limits.QueueTimeout)
		c.place.Store(nil)
	}
	if err != nil {
		c.coord.leaveGate(g)
		return err
	}
	c.turns = append(c.turns, turn{g, c.coord.now()})
	return nil
}

// giveBack ends the turns.
func (c *Call) giveBack() {
	now := c.coord.now()
	for _, t := range c.turns {
		t.gate.ended(now.Sub(t.began))
		t.gate.release(c.Principal)
		c.coord.leaveGate(t.gate)
	}
}

// Ahead is about how many calls get their turn before this one, and whether it
// still waits for one.
func (c *Call) Ahead() (n int, waits bool) {
	at := c.place.Load()
	if at == nil {
		return 0, false
	}
	n = at.gate.ahead(at.waiter)
	return n, n > 0
}

// enterGate makes the gate when it is not in use yet. A changed limit holds from
// when it is next out of use.
func (c *Coordinator) enterGate(s Share) *gate {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[s.id()]
	if g == nil {
		_, among := c.limits[EachPrincipal]
		g, _ = c.spare.Get().(*gate)
		g = g.renewed(s, among && s.Who == "")
		c.gates[s.id()] = g
	}
	g.users++
	return g
}

func (c *Coordinator) leaveGate(g *gate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(c.gates, g.id())
		c.spare.Put(g)
	}
}

// Cancel ends the call's context with cause.
func (c *Call) Cancel(cause error) { c.cancel(cause) }

// End takes the call out of the table and gives its turn back. It is to be
// called once, by who called Admit, after the upstream is done with the call.
func (c *Call) End() {
	c.cancel(context.Canceled)
	c.giveBack()
	c.coord.mu.Lock()
	defer c.coord.mu.Unlock()
	delete(c.coord.calls, c.ID)
	if len(c.coord.calls) == 0 && c.coord.idle != nil {
		close(c.coord.idle)
		c.coord.idle = nil
	}
}

// Info is a call as a snapshot shows it.
type Info struct {
	About
	ID  uint64
	Age time.Duration
}

// Snapshot lists the calls in flight, oldest first.
func (c *Coordinator) Snapshot() []Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Info, 0, len(c.calls))
	for _, call := range c.calls {
		out = append(out, Info{About: call.About, ID: call.ID, Age: c.now().Sub(call.Started)})
	}
	slices.SortFunc(out, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Len is how many calls are in flight.
func (c *Coordinator) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

// Waiting is how many calls wait for a turn, anywhere.
func (c *Coordinator) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, g := range c.gates {
		n += g.len()
	}
	return n
}

// CancelAll cancels every call in flight with cause.
func (c *Coordinator) CancelAll(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		call.cancel(cause)
	}
}

// Wait returns when no call is in flight, or with the error of ctx.
func (c *Coordinator) Wait(ctx context.Context) error {
	for {
		idle := c.idleSignal()
		if idle == nil {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *Coordinator) idleSignal() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) == 0 {
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}
