package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"taskgate/wire"
)

// Guard keeps browsers out that were lured here (DNS rebinding, cross-site
// requests): streamable-http, Security & Endpoint.
type Guard struct {
	// Origins are allowed values of Origin beyond those of this machine.
	Origins []string
	// Hosts are allowed host names (without port) beyond those of this machine.
	// With AnyHost they are not looked at.
	Hosts   []string
	AnyHost bool
}

func (g Guard) check(req *http.Request) error {
	if !g.AnyHost && !g.allowsHost(hostname(req.Host)) {
		return refuse(http.StatusForbidden, wire.CodeInvalidRequest, "Forbidden: header Host names no host of this gateway; add it to allowedHosts")
	}
	for _, origin := range req.Header.Values("Origin") {
		if !g.allowsOrigin(origin) {
			return refuse(http.StatusForbidden, wire.CodeInvalidRequest, "Forbidden: header Origin is not allowed; add it to allowedOrigins")
		}
	}
	return nil
}

func (g Guard) allowsHost(name string) bool {
	return slices.Contains(g.Hosts, name) || isLoopback(name)
}

func (g Guard) allowsOrigin(origin string) bool {
	if slices.Contains(g.Origins, origin) || slices.Contains(g.Origins, "*") {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && isLoopback(u.Hostname())
}

func hostname(hostport string) string {
	if strings.Contains(hostport, ":") {
		if host, _, err := net.SplitHostPort(hostport); err == nil {
			return strings.ToLower(host)
		}
	}
	return strings.ToLower(strings.Trim(hostport, "[]"))
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
