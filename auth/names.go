package auth

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// Field is one kind of name in a certificate.
type Field string

// Fields. FieldSubject is the whole distinguished name as RFC 2253 writes it,
// FieldCN its common name, which only mTLS knows.
const (
	FieldURI     Field = "uri"
	FieldDNS     Field = "dns"
	FieldEmail   Field = "email"
	FieldCN      Field = "cn"
	FieldSubject Field = "subject"
)

// Values lists the fields.
func (Field) Values() []string {
	return []string{string(FieldURI), string(FieldDNS), string(FieldEmail), string(FieldCN), string(FieldSubject)}
}

// NameRule makes a principal of a name. Tenant and Subject may use what Match
// has captured, as $1 or ${name}.
type NameRule struct {
	Field   Field
	Match   *regexp.Regexp
	Tenant  string
	Subject string
	Scopes  []string
}

// CompileName compiles a pattern that a whole name has to match.
func CompileName(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}

// names are the names in a certificate, by field.
type names map[Field][]string

// principal returns what the first rule that matches any name makes of it.
// Without rules the one SPIFFE id is the subject and its trust domain the tenant.
func (n names) principal(rules []NameRule) (Principal, []string, error) {
	if len(rules) == 0 {
		id, err := spiffeID(n[FieldURI])
		if err != nil {
			return Principal{}, nil, invalidToken("the client certificate has no SPIFFE id")
		}
		domain, _, _ := strings.Cut(strings.TrimPrefix(id, "spiffe://"), "/")
		return Principal{Tenant: domain, Subject: id}, nil, nil
	}
	for _, r := range rules {
		for _, name := range n[r.Field] {
			if at := r.Match.FindStringSubmatchIndex(name); at != nil {
				expand := func(template string) string { return string(r.Match.ExpandString(nil, template, name, at)) }
				return Principal{Tenant: expand(r.Tenant), Subject: expand(r.Subject)}, r.Scopes, nil
			}
		}
	}
	return Principal{}, nil, invalidToken("no rule names the bearer of the client certificate")
}

var errNoSPIFFE = errors.New("not exactly one SPIFFE id")

// spiffeID is the one URI of an X.509-SVID. With several there is none: the
// standard allows one only (X509-SVID, section 2).
func spiffeID(uris []string) (string, error) {
	if len(uris) != 1 {
		return "", errNoSPIFFE
	}
	u, err := url.Parse(uris[0])
	if err != nil || u.Scheme != "spiffe" || u.Host == "" || u.Path == "" {
		return "", errNoSPIFFE
	}
	return uris[0], nil
}
