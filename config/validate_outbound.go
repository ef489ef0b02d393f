package config

import (
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// outbound looks at what of the client, and of the gateway, an upstream gets.
func (v *validator) outbound(at string, u Upstream, c Config) {
	v.upstreamAuth(at+".auth", u, c)
	v.upstreamTLS(at+".tls", u)
	taken := map[string]bool{}
	for name := range u.Headers {
		taken[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
	for i, f := range u.ForwardHeaders {
		path := item(at+".forwardHeaders", i)
		v.forwardHeader(path, f)
		if isKeyHeader(c, f.Name) {
			v.problem(path, "%s is where clients send their keys for this gateway, which nobody else may have", f.Name)
		}
		to := textproto.CanonicalMIMEHeaderKey(f.To())
		if taken[to] {
			v.problem(path, "%s is set by headers, or by another of forwardHeaders, already", to)
		}
		taken[to] = true
		if !f.Keep && len(c.Identity) == 0 {
			v.problem(path, "without identity all callers are one and share sessions and tasks, so what one of them sends would count for others; configure identity, or write keep: true if it is no credential")
		}
	}
	if len(u.ForwardHeaders) > 0 && len(u.Command) > 0 {
		v.problem(at+".forwardHeaders", "cannot be sent to a command; remove them")
	}
}

// isKeyHeader tells the header that clients send API keys in.
func isKeyHeader(c Config, name string) bool {
	return slices.ContainsFunc(c.Identity, func(i Identity) bool { return i.APIKeys != nil && strings.EqualFold(i.APIKeys.Header, name) })
}

func (v *validator) forwardHeader(at string, f ForwardHeader) {
	for _, name := range slices.Compact([]string{f.Name, f.To()}) {
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			v.problem(at, "%q is not a header name", name)
		case isOurs(name), isForwarding(name):
			v.problem(at, "%s belongs to the protocol or to the connection and is never forwarded", name)
		case strings.EqualFold(name, "Authorization"), strings.EqualFold(name, "Proxy-Authorization"):
			v.problem(at, "%s is not forwarded as a header; write auth: {mode: exchange} or auth: {mode: forward}", name)
		case f.Keep && carriesCredentials(name):
			v.problem(at, "%s carries credentials, which are not kept; remove keep", name)
		}
	}
}

// isForwarding tells headers by which proxies say where a request came from. A
// client could claim anything in them.
func isForwarding(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return strings.HasPrefix(name, "X-Forwarded-") || slices.Contains([]string{
		"Forwarded", "Proxy-Connection", "Via", "X-Envoy-Original-Path", "X-Real-Ip",
	}, name)
}

func (v *validator) upstreamAuth(at string, u Upstream, c Config) {
	a := u.Auth
	v.enum(at+".mode", string(a.Mode), a.Mode.Values())
	v.enum(at+".secretIn", string(a.SecretIn), a.SecretIn.Values())
	v.enum(at+".shortToken", string(a.ShortToken), a.ShortToken.Values())
	if a.Mode == AuthNone {
		return
	}
	if len(u.Command) > 0 {
		v.problem(at, "does nothing for a command; give it what it needs in its environment")
	}
	if _, ok := u.Headers["Authorization"]; ok {
		v.problem(at, "sets Authorization, and so does headers; keep one of the two")
	}
	switch a.Mode {
	case AuthStatic:
		v.secretReference(at+".token", a.Token)
	case AuthExchange:
		v.secureURL(at+".tokenURL", a.TokenURL)
		v.secretReference(at+".clientSecret", a.ClientSecret)
		if a.ClientID == "" {
			v.problem(at+".clientID", "is missing")
		}
		v.scopes(at+".scopes", a.Scopes)
	}
	if a.Mode != AuthStatic && !hasJWT(c) {
		v.problem(at+".mode", "%s needs clients that come with access tokens; configure identity: [{jwt: …}]", a.Mode)
	}
}

func (v *validator) upstreamTLS(at string, u Upstream) {
	switch t := u.TLS; {
	case t == UpstreamTLS{}:
	case !strings.HasPrefix(u.URL, "https://"):
		v.problem(at, "does nothing for what is not reached by https://")
	case (t.CertFile == "") != (t.KeyFile == ""):
		v.problem(at, "wants certFile and keyFile together")
	}
}

func (v *validator) secretReference(at string, s Secret) {
	if !s.IsReference() {
		v.problem(at, "must be kept elsewhere; write env:NAME or file:PATH")
	}
}
