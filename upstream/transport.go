package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// newClient returns an HTTP client without a total time limit, which would cut
// long calls; each phase has its own limit instead.
func newClient(o Options) *http.Client {
	dialer := &net.Dialer{Timeout: o.ConnectTimeout}
	if !o.AllowLinkLocal {
		dialer.ControlContext = refuseLinkLocal
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			DialTLSContext:      dialTLS(dialer, o),
			TLSHandshakeTimeout: o.ConnectTimeout,
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
			// The default of 2 idle connections halves the throughput.
			MaxIdleConnsPerHost: o.Concurrency,
			IdleConnTimeout:     90 * time.Second,
			// Nothing is to be compressed; what comes compressed all the same is
			// seen by its magic, declared or not.
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		// A redirected POST may end anywhere, with our credentials in it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
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

// refuseLinkLocal looks at the address after the name was resolved, so that no
// DNS answer gets around it.
func refuseLinkLocal(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if ip := at.Addr().Unmap().WithZone(""); forbidden(ip) {
		return fmt.Errorf("address %v is link-local or a metadata service and not allowed", ip)
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
