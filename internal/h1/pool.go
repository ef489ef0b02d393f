package h1

import (
	"bufio"
	"context"
	"slices"
	"time"
)

// conn is a connection that nobody else uses.
func (t *Transport) conn(ctx context.Context, addr string) (*conn, error) {
	for {
		c := t.take(addr)
		if c == nil {
			break
		}
		if c.alive() {
			return c, nil
		}
		c.abort()
	}
	nc, err := t.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c, err := newConn(nc, addr)
	if err != nil {
		_ = nc.Close() // it was not used
	}
	return c, err
}

// take is the idle connection that was used last; nil when there is none.
func (t *Transport) take(addr string) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	idle := t.idle[addr]
	if len(idle) == 0 {
		return nil
	}
	c := idle[len(idle)-1]
	t.idle[addr] = slices.Delete(idle, len(idle)-1, len(idle))
	return c
}

// keep takes a connection back. When there are too many, the one goes that was
// idle for longest: it is the likeliest to be closed by the server.
func (t *Transport) keep(c *conn) {
	t.giveBack(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	c.idleSince = time.Now()
	if t.idle == nil {
		t.idle = map[string][]*conn{}
	}
	idle := append(t.idle[c.addr], c)
	if len(idle) > t.MaxIdle {
		idle[0].abort()
		idle = slices.Delete(idle, 0, 1)
	}
	t.idle[c.addr] = idle
	if t.sweeper == nil {
		t.sweeper = time.AfterFunc(t.IdleTimeout, t.sweep)
	}
}

// sweep closes connections that have been idle for too long, and comes again as
// long as there are others.
func (t *Transport) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for addr, idle := range t.idle {
		n := 0
		for n < len(idle) && time.Since(idle[n].idleSince) >= t.IdleTimeout {
			idle[n].abort()
			n++
		}
		if t.idle[addr] = slices.Delete(idle, 0, n); n == len(idle) {
			delete(t.idle, addr)
		}
	}
	t.sweeper = nil
	if len(t.idle) > 0 {
		t.sweeper = time.AfterFunc(t.IdleTimeout/2, t.sweep)
	}
}

// CloseIdleConnections closes connections that are not in use.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, idle := range t.idle {
		for _, c := range idle {
			c.abort()
		}
	}
	clear(t.idle)
}

// reader is a buffer for what comes on c.
func (t *Transport) reader(c *conn) *bufio.Reader {
	if r, ok := t.readers.Get().(*bufio.Reader); ok {
		r.Reset(c)
		return r
	}
	return bufio.NewReaderSize(c, readBuffer)
}

// giveBack is for a connection on which nothing is to come for now.
func (t *Transport) giveBack(c *conn) {
	c.in.Reset(nil)
	t.readers.Put(c.in)
	c.in = nil
}
