package auth

import "net/http"

// MTLS takes the client certificate of the connection, which the listener has
// verified, for the caller's own.
type MTLS struct{ rules []NameRule }

// NewMTLS returns an authenticator by the names in client certificates.
func NewMTLS(rules []NameRule) *MTLS { return &MTLS{rules} }

// Authenticate implements Authenticator.
func (m *MTLS) Authenticate(req *http.Request, _ *Resource) (Identity, error) {
	cert := clientCertificate(req)
	if cert == nil {
		return Identity{}, ErrNone
	}
	n := names{FieldURI: uris(cert), FieldDNS: cert.DNSNames, FieldEmail: cert.EmailAddresses, FieldSubject: {cert.Subject.String()}}
	if cert.Subject.CommonName != "" {
		n[FieldCN] = []string{cert.Subject.CommonName}
	}
	p, scopes, err := n.principal(m.rules)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Principal: p, Scopes: scopes, Method: "mtls"}, nil
}
