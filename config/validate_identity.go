package config

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// identity looks at who may call. Everything here is refused at the start: a
// mistake in it may let somebody in.
func (v *validator) identity(c Config) {
	for i, id := range c.Identity {
		at := item("identity", i)
		if kinds := id.kinds(); len(kinds) != 1 {
			v.problem(at, "wants exactly one of jwt, apiKeys, trustedHeaders, xfcc and mtls")
			continue
		}
		v.jwt(at+".jwt", id.JWT)
		v.apiKeys(at+".apiKeys", id.APIKeys)
		v.trustedHeaders(at+".trustedHeaders", id.TrustedHeaders, c)
		if id.XFCC != nil {
			v.peers(at+".xfcc.peers", id.XFCC.Peers, c)
			v.nameRules(at+".xfcc.names", id.XFCC.Names)
		}
		if id.MTLS != nil {
			v.nameRules(at+".mtls.names", id.MTLS.Names)
			if c.TLS.ClientCAFile == "" {
				v.problem(at+".mtls", "needs client certificates, but the listener asks for none; set tls.clientCAFile")
			}
		}
	}
	v.once(c.Identity)
	v.issuers(c.Identity)
	v.publicURL(c)
	for i, s := range c.ImpliedScopes {
		v.scopes(item("impliedScopes", i), append([]string{s.Scope}, s.Includes...))
	}
}

// once: of the kinds that read headers or the connection there is one each.
func (v *validator) once(list []Identity) {
	seen := map[string]int{}
	for i, id := range list {
		for _, kind := range id.kinds() {
			if first, ok := seen[kind]; ok && kind != "jwt" {
				v.problem(item("identity", i)+"."+kind, "is there already, as identity[%d]; put the two together", first)
			}
			seen[kind] = i
		}
	}
}

// issuers: two issuers may know different people by one name.
func (v *validator) issuers(list []Identity) {
	issuers, tenants := map[string]string{}, map[string]string{}
	for i, id := range list {
		if id.JWT == nil {
			continue
		}
		at := item("identity", i) + ".jwt"
		v.unique(issuers, at, "issuer", id.JWT.Issuer)
		if id.JWT.TenantClaim == "" {
			v.unique(tenants, at, "tenant", id.JWT.Tenant)
		}
	}
}

const maxLeeway = 5 * time.Minute

// algorithms are those by which a public key can verify.
func algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

func (v *validator) jwt(at string, j *JWT) {
	if j == nil {
		return
	}
	v.secureURL(at+".issuer", j.Issuer)
	if j.JWKSURL != "" {
		v.secureURL(at+".jwksURL", j.JWKSURL)
		if j.JWKSFile != "" {
			v.problem(at+".jwksFile", "is set beside jwksURL; keep one of the two")
		}
	}
	if len(j.Algorithms) == 0 {
		v.problem(at+".algorithms", "is empty; write those that the issuer signs with, such as [RS256]")
	}
	for i, a := range j.Algorithms {
		v.enum(item(at+".algorithms", i), a, algorithms())
	}
	if j.Leeway > maxLeeway {
		v.problem(at+".leeway", "%s would keep expired tokens good for long; %s is the most", j.Leeway, maxLeeway)
	}
	if j.Tenant == "" && j.TenantClaim == "" {
		v.problem(at+".tenant", "is empty, and so is tenantClaim; set one of the two")
	}
	if j.SubjectClaim == "" {
		v.problem(at+".subjectClaim", "is empty; write sub")
	}
	for i, a := range j.Audience {
		if a == "" {
			v.problem(item(at+".audience", i), "is empty")
		}
	}
}

// secureURL wants https, or http on this machine.
func (v *validator) secureURL(at, s string) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		v.problem(at, "%q is not an https:// URL", redact(s))
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		v.problem(at, "%s is not encrypted, so that anybody on the way could answer; write https://", u.Redacted())
	case u.User != nil || u.Fragment != "":
		v.problem(at, "must not hold credentials or a fragment")
	}
}

func (v *validator) apiKeys(at string, a *APIKeys) {
	if a == nil {
		return
	}
	v.headerName(at+".header", a.Header)
	if len(a.Keys) == 0 && a.File == "" {
		v.problem(at, "has no key; write keys: [{subject: …, sha256: …}], or file: PATH")
	}
	v.apiKeyList(at+".keys", a.Keys)
}

func (v *validator) apiKeyList(at string, keys []APIKey) {
	seen := map[Sum]int{}
	for i, k := range keys {
		path := item(at, i)
		if k.Tenant == "" || k.Subject == "" {
			v.problem(path, "needs a tenant and a subject")
		}
		if k.SHA256 == (Sum{}) {
			v.problem(path+".sha256", "is missing; write the SHA-256 sum of the key")
		} else if first, ok := seen[k.SHA256]; ok {
			v.problem(path+".sha256", "is that of keys[%d] already; give each its own key", first)
		}
		seen[k.SHA256] = i
		v.scopes(path+".scopes", k.Scopes)
	}
}

func (v *validator) trustedHeaders(at string, t *TrustedHeaders, c Config) {
	if t == nil {
		return
	}
	v.peers(at+".peers", t.Peers, c)
	v.headerName(at+".subjectHeader", t.SubjectHeader)
	if t.TenantHeader != "" {
		v.headerName(at+".tenantHeader", t.TenantHeader)
	}
	if t.ScopesHeader != "" {
		v.headerName(at+".scopesHeader", t.ScopesHeader)
	}
	if t.Tenant == "" && t.TenantHeader == "" {
		v.problem(at+".tenant", "is empty, and so is tenantHeader; set one of the two")
	}
}

func (v *validator) headerName(at, name string) {
	if !httpguts.ValidHeaderFieldName(name) || isOurs(name) && !strings.EqualFold(name, "Authorization") {
		v.problem(at, "%q is not a header that can say who is calling", name)
	}
}

func (v *validator) peers(at string, peers []string, c Config) {
	if len(peers) == 0 {
		v.problem(at, "is empty; write the CIDRs or SPIFFE ids of those whose word is taken")
	}
	for i, p := range peers {
		_, prefixErr := netip.ParsePrefix(p)
		_, addrErr := netip.ParseAddr(p)
		u, urlErr := url.Parse(p)
		isID := urlErr == nil && u.Scheme == "spiffe" && u.Host != "" && u.Path != ""
		switch {
		case prefixErr != nil && addrErr != nil && !isID:
			v.problem(item(at, i), "%q is neither a CIDR such as 10.0.0.0/8 nor a SPIFFE id", p)
		case isID && c.TLS.ClientCAFile == "":
			v.problem(item(at, i), "%s can be seen in a client certificate only; set tls.clientCAFile", p)
		}
	}
}

func (v *validator) nameRules(at string, rules []NameRule) {
	for i, r := range rules {
		path := item(at, i)
		v.enum(path+".field", string(r.Field), r.Field.Values())
		if _, err := regexp.Compile(r.Match); err != nil || r.Match == "" {
			v.problem(path+".match", "%q is not a regular expression for a name", r.Match)
		}
		if r.Tenant == "" || r.Subject == "" {
			v.problem(path, "needs a tenant and a subject")
		}
		v.scopes(path+".scopes", r.Scopes)
	}
}

// scopeToken is RFC 6749, appendix A.4.
var scopeToken = regexp.MustCompile(`^[\x21\x23-\x5B\x5D-\x7E]+$`)

func (v *validator) scopes(at string, scopes []string) {
	for i, s := range scopes {
		if !scopeToken.MatchString(s) {
			v.problem(item(at, i), "%q is not a scope: it may not hold spaces, quotes or backslashes", s)
		}
	}
}

// publicURL is what clients call the gateway; without it they cannot ask for a
// token that is meant for it.
func (v *validator) publicURL(c Config) {
	if c.PublicURL == "" {
		host, _, err := net.SplitHostPort(c.Listen)
		if err == nil && !isLoopback(host) && hasJWT(c) {
			v.problem("publicURL", "is needed for jwt: a token must be issued for this gateway, so clients have to know what it is called; write https://mcp.example.com")
		}
		return
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.HasSuffix(u.Path, "/") {
		v.problem("publicURL", "%q is not an URL that names the gateway; write one such as https://mcp.example.com, without a slash at its end", redact(c.PublicURL))
	}
}

func (v *validator) tls(t TLS) {
	v.enum("tls.clientAuth", string(t.ClientAuth), t.ClientAuth.Values())
	v.enum("tls.minVersion", string(t.MinVersion), t.MinVersion.Values())
	if (t.CertFile == "") != (t.KeyFile == "") {
		v.problem("tls", "wants certFile and keyFile together")
	}
	if t.ClientCAFile != "" && t.CertFile == "" {
		v.problem("tls.clientCAFile", "does nothing without certFile and keyFile")
	}
}

func (v *validator) audit(a Audit) {
	if a.To == "" {
		v.problem("audit.to", "is empty; write none, stderr or a file")
	}
}

// upstreamScopes: a scope that nobody can have would close the upstream.
func (v *validator) upstreamScopes(at string, u Upstream, c Config) {
	v.scopes(at+".scopes", u.Scopes)
	if len(u.Scopes) > 0 && len(c.Identity) == 0 {
		v.problem(at+".scopes", "can be met by nobody without identity; configure identity, or remove them")
	}
}

func hasJWT(c Config) bool {
	return slices.ContainsFunc(c.Identity, func(i Identity) bool { return i.JWT != nil })
}
