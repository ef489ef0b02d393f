package h1

import (
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

// keep takes a connection back.
func (t *Transport) keep(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle[c.addr]) >= t.MaxIdle {
		c.abort()
		return
	}
	c.idleSince = time.Now()
	if t.idle == nil {
		t.idle = map[string][]*conn{}
	}
	t.idle[c.addr] = append(t.idle[c.addr], c)
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
