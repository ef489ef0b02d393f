package mcptest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Cutter is a TCP proxy in front of one address. It passes everything on until
// it is told how to break.
type Cutter struct {
	listener net.Listener
	target   string
	done     sync.WaitGroup

	mu     sync.Mutex
	fault  breakage
	budget int           // of bytes toward the client, for dropAfter
	late   time.Duration // of replies, for delay
	resume chan struct{} // closed and replaced at every change of fault
	conns  map[net.Conn]bool
	closed bool
}

// breakage is how a Cutter breaks.
type breakage int

const (
	pass breakage = iota
	pause
	beforeReply
	dropAfter
	delay
)

// NewCutter starts a proxy to target, a host and port, until the test ends.
func NewCutter(t testing.TB, target string) *Cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cutter{listener: l, target: target, resume: make(chan struct{}), conns: map[net.Conn]bool{}}
	c.done.Go(c.accept)
	t.Cleanup(c.close)
	return c
}

func (c *Cutter) close() {
	_ = c.listener.Close()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.Heal()
	c.Cut()
	c.done.Wait()
}

// Addr is where the proxy listens.
func (c *Cutter) Addr() string { return c.listener.Addr().String() }

// Heal passes everything on, also what a Pause has held back.
func (c *Cutter) Heal() { c.set(pass, 0) }

// Pause lets nothing through in either direction; connections stay open.
func (c *Cutter) Pause() { c.set(pause, 0) }

// BeforeReply lets requests through and closes a connection when its answer begins.
func (c *Cutter) BeforeReply() { c.set(beforeReply, 0) }

// DropAfter closes connections once n more bytes have gone toward the client,
// on all of them together.
func (c *Cutter) DropAfter(n int) { c.set(dropAfter, n) }

// Delay holds every reply back for so long.
func (c *Cutter) Delay(late time.Duration) {
	c.mu.Lock()
	c.late = late
	c.mu.Unlock()
	c.set(delay, 0)
}

func (c *Cutter) set(f breakage, budget int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault, c.budget = f, budget
	close(c.resume)
	c.resume = make(chan struct{})
}

// Cut closes all connections.
func (c *Cutter) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		_ = conn.Close()
	}
}

func (c *Cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c.track(client, server)
		c.done.Go(func() { c.copy(server, client, false) })
		c.done.Go(func() { c.copy(client, server, true) })
	}
}

func (c *Cutter) track(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		c.conns[conn] = true
		if c.closed {
			_ = conn.Close()
		}
	}
}

// copy passes bytes on until one side is closed, and then closes both.
func (c *Cutter) copy(to, from net.Conn, reply bool) {
	defer func() {
		_, _ = to.Close(), from.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.conns, from)
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		allowed, last := c.allow(n, reply)
		if _, werr := to.Write(buf[:allowed]); err != nil || werr != nil || last {
			return
		}
	}
}

// allow says how many of n bytes may pass, and whether they are the last. It
// waits while the proxy is paused.
func (c *Cutter) allow(n int, reply bool) (allowed int, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.fault == pause {
		resume := c.resume
		c.mu.Unlock()
		<-resume
		c.mu.Lock()
	}
	if c.fault == delay && reply {
		late := c.late
		c.mu.Unlock()
		<-time.After(late)
		c.mu.Lock()
	}
	switch {
	case c.fault == beforeReply && reply && n > 0:
		return 0, true
	case c.fault == dropAfter && reply:
		allowed = min(n, c.budget)
		c.budget -= allowed
		return allowed, c.budget == 0
	}
	return n, false
}
