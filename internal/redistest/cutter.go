package redistest

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Cutter stands between a client and a server and loses replies on demand.
type Cutter struct {
	Addr string

	target string
	needle atomic.Pointer[string]
	cuts   atomic.Int64
	conns  sync.Map
}

// StartCutter runs a Cutter in front of s; it ends with t.
func StartCutter(t testing.TB, s *Server) *Cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cutter{Addr: l.Addr().String(), target: s.Addr}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		c.conns.Range(func(conn, _ any) bool { _ = conn.(net.Conn).Close(); return true })
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { c.relay(client) })
		}
	})
	return c
}

// URL is the way to the server through the cutter.
func (c *Cutter) URL() string { return "redis://" + c.Addr }

// LoseReply has the server get the next request that contains command, but the
// client lose its reply, and its connection.
func (c *Cutter) LoseReply(command string) {
	command = strings.ToLower(command)
	c.needle.Store(&command)
}

// Cuts is how many replies were lost so far.
func (c *Cutter) Cuts() int { return int(c.cuts.Load()) }

func (c *Cutter) relay(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	for _, conn := range []net.Conn{client, server} {
		c.conns.Store(conn, nil)
		defer c.conns.Delete(conn)
	}
	var cut atomic.Bool
	var replies sync.WaitGroup
	replies.Go(func() {
		pump(client, server, func([]byte) bool { return !cut.Load() })
		if cut.Load() {
			c.cuts.Add(1)
		}
		_ = client.Close() // ends the other direction
	})
	pump(server, client, func(request []byte) bool {
		if needle := c.needle.Load(); needle != nil && bytes.Contains(bytes.ToLower(request), []byte(*needle)) {
			cut.Store(c.needle.CompareAndSwap(needle, nil))
		}
		return true
	})
	_ = server.Close()
	replies.Wait()
}

// pump copies from one side to the other while pass says so of each chunk.
func pump(to, from net.Conn, pass func([]byte) bool) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			if !pass(chunk[:n]) {
				return
			}
			if _, err := to.Write(chunk[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
