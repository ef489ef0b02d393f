package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"taskgate/internal/h1"
)

// transport sends requests: our own those to http URLs, and that of the standard
// library those to https. Neither follows a redirect, since a redirected POST may
// end anywhere, with our credentials in it; and neither has a time limit, which
// would cut long calls: each phase has its own instead.
type transport struct {
	plain  *h1.Transport
	secure *http.Transport
}

const (
	idleTimeout       = 90 * time.Second // of a connection
	maxIdle           = 128              // connections: those of a burst of calls are not kept
	maxResponseHeader = 64 << 10         // bytes
)

func newTransport(o Options) transport {
	dialer := &net.Dialer{Timeout: o.ConnectTimeout, ControlContext: o.checkAddress}
	idle := min(o.Concurrency, maxIdle)
	return transport{
		plain: &h1.Transport{Dial: dialPlain(dialer), MaxIdle: idle, IdleTimeout: idleTimeout, MaxHeaderBytes: maxResponseHeader},
		secure: &http.Transport{
			DialContext:         dialer.DialContext,
			DialTLSContext:      dialTLS(dialer, o),
			TLSHandshakeTimeout: o.ConnectTimeout,
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
			// The default of 2 idle connections halves the throughput.
			MaxIdleConnsPerHost: idle,
			IdleConnTimeout:     idleTimeout,
			// Nothing is to be compressed; what comes compressed all the same is
			// seen by its magic, declared or not.
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxResponseHeader,
		},
	}
}

// httpStream is an HTTP request that is out, and what comes back.
type httpStream interface {
	// Wait returns when the server has begun to answer, as far as that can be told.
	Wait()
	// Response is to be called once, with the context of the request. To close its
	// body ends the stream.
	Response(ctx context.Context) (*http.Response, error)
	// Release makes the end of the context mean nothing to the stream any more.
	Release()
}

// send sends a request. sent says whether the server may have read any of it. The
// stream ends with ctx.
func (t transport) send(ctx context.Context, req *h1.Request, sent *atomic.Bool) (httpStream, error) {
	if req.URL.Scheme == "https" {
		return &secureStream{transport: t.secure, request: *req, sent: sent}, nil
	}
	x, err := t.plain.Start(ctx, req, sent)
	if err != nil {
		return nil, err
	}
	return x, nil
}

// CloseIdleConnections closes those of both.
func (t transport) CloseIdleConnections() {
	t.secure.CloseIdleConnections()
	t.plain.CloseIdleConnections()
}

// dialPlain knows of the end of ctx, but not of its deadline: a dialer would report
// that as its own, and sooner.
func dialPlain(dialer *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		dialling, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return dialer.DialContext(dialling, network, address)
	}
}

// dialTLS asks for the configuration of each connection, so that certificates
// that were renewed are used; nil leaves https to the transport.
func dialTLS(dialer *net.Dialer, o Options) func(ctx context.Context, network, address string) (net.Conn, error) {
	if o.TLS == nil {
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*o.ConnectTimeout) // dialling and handshake
		defer cancel()
		config := o.TLS().Clone()
		config.NextProtos = []string{"h2", "http/1.1"}
		return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
	}
}

// checkAddress looks at the address after the name was resolved, so that no DNS
// answer gets around it.
func (o Options) checkAddress(_ context.Context, _, address string, _ syscall.RawConn) error {
	if o.AllowLinkLocal {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if ip := at.Addr().Unmap().WithZone(""); forbidden(ip) {
		return fmt.Errorf("address %v is link-local or a metadata service and not allowed; allowLinkLocal lets it be", ip)
	}
	return nil
}

func forbidden(ip netip.Addr) bool {
	if ip.IsLinkLocalUnicast() || ip.IsMulticast() {
		return true
	}
	for _, metadata := range []string{"fd00:ec2::254", "100.100.100.200", "192.0.0.192"} { // AWS, Alibaba, Oracle
		if ip == netip.MustParseAddr(metadata) {
			return true
		}
	}
	return false
}
