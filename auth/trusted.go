package auth

import (
	"net/http"
	"strings"
)

// TrustedHeaders takes the word of some peers, such as an ingress that has
// authenticated the caller. Everybody else's headers of these names are removed.
type TrustedHeaders struct{ opts TrustedHeadersOptions }

// TrustedHeadersOptions name the headers. SubjectHeader is needed; the others
// may be "".
type TrustedHeadersOptions struct {
	Peers         Peers
	SubjectHeader string
	TenantHeader  string
	ScopesHeader  string // a list as RFC 6749 has it, separated by spaces
	Tenant        string // when there is no TenantHeader
}

// NewTrustedHeaders returns an authenticator by headers that peers set.
func NewTrustedHeaders(o TrustedHeadersOptions) *TrustedHeaders { return &TrustedHeaders{o} }

func (t *TrustedHeaders) strip(req *http.Request) {
	if t.opts.Peers.trusts(req) {
		return
	}
	for _, name := range []string{t.opts.SubjectHeader, t.opts.TenantHeader, t.opts.ScopesHeader} {
		req.Header.Del(name)
	}
}

// Authenticate implements Authenticator.
func (t *TrustedHeaders) Authenticate(req *http.Request, _ *Resource) (Identity, error) {
	if !t.opts.Peers.trusts(req) || len(req.Header.Values(t.opts.SubjectHeader)) == 0 {
		return Identity{}, ErrNone
	}
	id := Identity{Method: "trustedHeaders"}
	id.Tenant = t.opts.Tenant
	var err error
	if id.Subject, err = single(req, t.opts.SubjectHeader); err != nil {
		return Identity{}, err
	}
	if t.opts.TenantHeader != "" {
		if id.Tenant, err = single(req, t.opts.TenantHeader); err != nil {
			return Identity{}, err
		}
	}
	id.Scopes = strings.Fields(req.Header.Get(t.opts.ScopesHeader))
	return id, nil
}

// single is the value of a header that must be there once: a second one may be
// what the client sent and the peer did not overwrite.
func single(req *http.Request, name string) (string, error) {
	values := req.Header.Values(name)
	if len(values) != 1 {
		return "", invalidToken("the header " + name + " is needed exactly once")
	}
	return strings.TrimSpace(values[0]), nil
}
