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
	"sync"
	"time"
)

// Limits bound the calls to one upstream.
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
	idle   chan struct{} // closed when calls becomes empty; nil when nobody waits
	gates  map[string]*gate
}

// New returns an empty table. limits are by upstream name; an upstream that is
// not in it has none.
func New(limits map[string]Limits, now func() time.Time) *Coordinator {
	c := &Coordinator{now: now, calls: map[uint64]*Call{}, gates: map[string]*gate{}}
	for name, l := range limits {
		c.gates[name] = newGate(name, l)
	}
	return c
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
	turn   func() // gives the turn back; nil while there is none
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

// Admit waits for the call's turn at its upstream. Errors: *OverloadError, or
// the cause of ctx.
func (c *Call) Admit(ctx context.Context) error {
	g := c.coord.gates[c.Upstream]
	if g == nil {
		return nil
	}
	turn, err := g.acquire(ctx, c.Principal)
	c.turn = turn
	return err
}

// Cancel ends the call's context with cause.
func (c *Call) Cancel(cause error) { c.cancel(cause) }

// End takes the call out of the table and gives its turn back. It is to be
// called once, by who called Admit, after the upstream is done with the call.
func (c *Call) End() {
	c.cancel(context.Canceled)
	if c.turn != nil {
		c.turn()
	}
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

// Waiting is how many calls wait for a turn at the upstream.
func (c *Coordinator) Waiting(upstream string) int {
	if g := c.gates[upstream]; g != nil {
		return g.len()
	}
	return 0
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
