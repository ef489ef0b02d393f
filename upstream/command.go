package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"taskgate/wire"
)

// CommandOptions are those of NewCommand. A zero limit, time or hook means its
// default.
type CommandOptions struct {
	// Name tells the upstream from others in logs.
	Name string
	// Command is the program and its arguments; it speaks MCP on its standard
	// input and output. It gets the gateway's environment.
	Command []string
	// Version is the gateway's own, for clientInfo.
	Version string
	// MaxMessage limits one message, in bytes. Default: 16 MiB.
	MaxMessage int
	// MaxProcesses limits the processes at once. Default: 64.
	MaxProcesses int
	// Idle is how long a process without a call is kept. Default: 5 min.
	Idle time.Duration
	// StartTimeout limits the start of a process with its initialize. Default: 60 s.
	StartTimeout time.Duration
	// CancelTimeout is how long a cancelled call may still answer, and how long
	// a process may take to end by itself. Default: 2 s.
	CancelTimeout time.Duration

	Log *zap.Logger      // default: none
	Now func() time.Time // default: time.Now
}

func (o CommandOptions) withDefaults() CommandOptions {
	setDefault(&o.Version, "unknown")
	setDefault(&o.MaxMessage, 16<<20)
	setDefault(&o.MaxProcesses, 64)
	setDefault(&o.Idle, 5*time.Minute)
	setDefault(&o.StartTimeout, time.Minute)
	setDefault(&o.CancelTimeout, 2*time.Second)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Command is an upstream that is a program: an MCP server on stdio, of the
// revisions that open with initialize. A process runs one call at a time, so
// whatever it sends meanwhile belongs to that call (contract 9); it is used
// again only by callers of one principal that announce the same capabilities.
type Command struct {
	opts CommandOptions
	gate gate // calls

	ending sync.WaitGroup // processes that are being stopped

	mu    sync.Mutex
	idle  []*process // the one that was used last is at the end
	count int        // processes, idle or not
}

var _ Caller = (*Command)(nil)

// NewCommand returns a Caller for a program. It is started when it is needed.
// Run must run beside it, and Close end it.
func NewCommand(o CommandOptions) (*Command, error) {
	if len(o.Command) == 0 {
		return nil, fmt.Errorf("upstream %q: the command is empty", o.Name)
	}
	return &Command{opts: o.withDefaults()}, nil
}

// Call implements Caller.
func (c *Command) Call(ctx context.Context, r Request, h Handler) (Reply, error) {
	if err := c.gate.enter(); err != nil {
		return Reply{}, err
	}
	defer c.gate.leave()
	params, err := legacyParams(r)
	if err != nil {
		return Reply{}, err
	}
	r.Params = params
	p, err := c.acquire(ctx, keyOf(r), r.Capabilities.Interactive())
	if err != nil {
		return Reply{}, err
	}
	reply, err := p.call(ctx, r, h)
	c.release(p)
	return reply, err
}

// Resume implements Caller: a process ends with the gateway that started it.
func (c *Command) Resume(context.Context, wire.Raw, Request, Handler) (Reply, error) {
	return Reply{}, broken(0, "the process that ran the call is gone")
}

// Info implements Caller.
func (c *Command) Info(ctx context.Context) (Info, error) {
	if err := c.gate.enter(); err != nil {
		return Info{}, err
	}
	defer c.gate.leave()
	nobody := Request{}
	p, err := c.acquire(ctx, keyOf(nobody), nobody.Capabilities.Interactive())
	if err != nil {
		return Info{}, err
	}
	defer c.release(p)
	o, err := wire.ParseObject(p.init)
	if err != nil {
		return Info{}, during("initialize", broken(0, "result: %w", err))
	}
	return Info{Capabilities: o.Get("capabilities"), ServerInfo: o.Get("serverInfo"), Instructions: o.Get("instructions"), Deaf: true}, nil
}

// Listen implements Caller: a process that runs no call is not listened to.
func (c *Command) Listen(context.Context, ListenRequest) (*Subscription, error) {
	return nil, &Error{Kind: Closed, Err: errors.New("a program on stdio is not listened to")}
}

// acquire takes an idle process of the key, or starts one.
func (c *Command) acquire(ctx context.Context, key sessionKey, capabilities wire.Raw) (*process, error) {
	if p := c.takeIdle(key); p != nil {
		return p, nil
	}
	victim, err := c.reserve()
	if err != nil {
		return nil, err
	}
	if victim != nil {
		c.ending.Go(victim.stop)
	}
	p, err := startProcess(ctx, c.opts, key, capabilities)
	if err != nil {
		c.unreserve()
		return nil, err
	}
	return p, nil
}

func (c *Command) takeIdle(key sessionKey) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.idle) - 1; i >= 0; i-- {
		p := c.idle[i]
		switch {
		case p.ended():
			c.idle = slices.Delete(c.idle, i, i+1)
			c.count--
		case p.key == key:
			c.idle = slices.Delete(c.idle, i, i+1)
			return p
		}
	}
	return nil
}

// reserve makes sure that a process more is within the limit; the one that has
// been idle for longest may have to go.
func (c *Command) reserve() (victim *process, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count < c.opts.MaxProcesses {
		c.count++
		return nil, nil
	}
	if len(c.idle) == 0 {
		return nil, &Error{Kind: Full, Err: fmt.Errorf("all %d processes that are allowed are in use", c.opts.MaxProcesses)}
	}
	victim, c.idle = c.idle[0], c.idle[1:]
	return victim, nil
}

func (c *Command) unreserve() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count--
}

// release keeps a process for the next call, unless it has ended or still has to
// do with the one before.
func (c *Command) release(p *process) {
	if p.ended() || p.spent {
		c.unreserve()
		c.ending.Go(p.stop) // nobody waits for it
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.idleSince = c.opts.Now()
	c.idle = append(c.idle, p)
}

// Run ends processes that have been idle for too long, until ctx ends.
func (c *Command) Run(ctx context.Context) error {
	tick := time.NewTicker(max(c.opts.Idle/2, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.endIdle(c.opts.Now().Add(-c.opts.Idle))
		}
	}
}

// endIdle ends the processes that have had no call since before.
func (c *Command) endIdle(before time.Time) {
	c.mu.Lock()
	var ending []*process
	c.idle = slices.DeleteFunc(c.idle, func(p *process) bool {
		old := p.idleSince.Before(before)
		if old {
			ending = append(ending, p)
			c.count--
		}
		return old
	})
	c.mu.Unlock()
	for _, p := range ending {
		c.ending.Go(p.stop)
	}
}

// Close implements Caller.
func (c *Command) Close(ctx context.Context) error {
	_, err := c.gate.close(ctx)
	c.endIdle(c.opts.Now().Add(time.Second))
	if err != nil {
		return fmt.Errorf("close upstream %q: %w", c.opts.Name, err)
	}
	c.ending.Wait()
	return nil
}
