package redistest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Meter stands between clients and a server and counts round trips.
type Meter struct {
	Addr string

	target string
	trips  atomic.Int64
	conns  sync.Map
}

// StartMeter runs a Meter in front of s; it ends with t.
func StartMeter(t testing.TB, s *Server) *Meter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &Meter{Addr: l.Addr().String(), target: s.Addr}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		m.conns.Range(func(conn, _ any) bool { _ = conn.(net.Conn).Close(); return true })
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { m.relay(client) })
		}
	})
	return m
}

// URL is the way to the server through the meter.
func (m *Meter) URL() string { return "redis://" + m.Addr }

// Trips is how often so far a client has sent something after it had its reply.
func (m *Meter) Trips() int { return int(m.trips.Load()) }

func (m *Meter) relay(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", m.target)
	if err != nil {
		return
	}
	defer server.Close()
	for _, conn := range []net.Conn{client, server} {
		m.conns.Store(conn, nil)
		defer m.conns.Delete(conn)
	}
	var waits atomic.Bool // for a reply
	var replies sync.WaitGroup
	replies.Go(func() {
		pump(client, server, func() { waits.Store(false) })
		_ = client.Close() // ends the other direction
	})
	pump(server, client, func() {
		if !waits.Swap(true) {
			m.trips.Add(1)
		}
	})
	_ = server.Close()
	replies.Wait()
}

// pump copies from one side to the other and tells of each chunk before.
func pump(to, from net.Conn, tell func()) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			tell()
			if _, err := to.Write(chunk[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
