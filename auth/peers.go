package auth

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Peers are the senders whose word on others is taken: by the address of the
// connection, or by the SPIFFE id of its client certificate.
type Peers struct {
	networks []netip.Prefix
	ids      []string
}

// ParsePeers reads CIDRs, addresses and SPIFFE ids.
func ParsePeers(list []string) (Peers, error) {
	var p Peers
	for _, s := range list {
		if strings.HasPrefix(s, "spiffe://") {
			if u, err := url.Parse(s); err != nil || u.Host == "" || u.Path == "" || u.String() != s {
				return Peers{}, fmt.Errorf("%q is not a SPIFFE id", s)
			}
			p.ids = append(p.ids, s)
			continue
		}
		network, err := netip.ParsePrefix(s)
		if addr, addrErr := netip.ParseAddr(s); addrErr == nil {
			network, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return Peers{}, fmt.Errorf("%q is neither a CIDR such as 10.0.0.0/8 nor a SPIFFE id", s)
		}
		p.networks = append(p.networks, network.Masked())
	}
	return p, nil
}

// trusts tells whether the connection that a request came on is a peer's.
func (p Peers) trusts(req *http.Request) bool {
	if cert := clientCertificate(req); cert != nil {
		if id, err := spiffeID(uris(cert)); err == nil && slices.Contains(p.ids, id) {
			return true
		}
	}
	at, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return false
	}
	from := at.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(from) })
}

// clientCertificate is the verified certificate of the connection; nil: none.
func clientCertificate(req *http.Request) *x509.Certificate {
	if req.TLS == nil || len(req.TLS.VerifiedChains) == 0 {
		return nil
	}
	return req.TLS.VerifiedChains[0][0]
}

func uris(cert *x509.Certificate) []string {
	out := make([]string, len(cert.URIs))
	for i, u := range cert.URIs {
		out[i] = u.String()
	}
	return out
}
