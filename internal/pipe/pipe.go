// Package pipe lets HTTP be served and asked within one process.
package pipe

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Listener is a net.Listener in memory, so that nobody else on the machine can
// reach what serves on it.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// New returns a Listener that is open.
func New() *Listener { return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Client makes its requests to the listener, whatever host they name.
func (l *Listener) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: l.Dial}}
}

// Dial connects to the listener, whatever address it is given. It fails with
// net.ErrClosed once the listener is closed, and with the error of ctx.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener: a name of this machine.
func (l *Listener) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "localhost" }
