package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"taskgate/auth"
	"taskgate/config"
	"taskgate/internal/livefile"
	"taskgate/proxy"
)

// What no operator had a reason to change yet.
const (
	fileInterval   = 5 * time.Second  // between two looks at certificates and keys
	keysInterval   = 10 * time.Minute // between two readings of an issuer's keys
	keysFileEvery  = 30 * time.Second // likewise, of a file
	keysRetry      = time.Second
	keysForUnknown = 10 * time.Second
	issuerTimeout  = 10 * time.Second
)

// upkeep is what has to be done beside the requests.
type upkeep struct {
	loops   []func(context.Context) error // each until its context ends
	reloads []func()                      // when whoever operates the gateway says so
}

// follow keeps a file up to date, and tells whoever operates the gateway.
func follow[T any](u *upkeep, f *livefile.File[T], what string, log *zap.Logger) {
	report := func(err error) {
		if err != nil {
			log.Error("a changed file is not used; what was read before holds on", zap.String("what", what), zap.Error(err))
			return
		}
		log.Info("a changed file was read again", zap.String("what", what))
	}
	u.loops = append(u.loops, func(ctx context.Context) error { return f.Run(ctx, fileInterval, report) })
	u.reloads = append(u.reloads, func() {
		if changed, err := f.Reload(); changed || err != nil {
			report(err)
		}
	})
}

// newChain makes the authenticators that the configuration lists.
func newChain(cfg config.Config, u *upkeep, log *zap.Logger) (*auth.Chain, error) {
	var list []auth.Authenticator
	for i, id := range cfg.Identity {
		a, err := newAuthenticator(id, u, log)
		if err != nil {
			return nil, fmt.Errorf("identity[%d]: %w", i, err)
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		log.Warn("no identity is configured: every caller is the same principal and sees the same tasks",
			zap.String("tenant", auth.Anonymous.Tenant), zap.String("subject", auth.Anonymous.Subject))
	}
	implied := map[string][]string{}
	for _, s := range cfg.ImpliedScopes {
		implied[s.Scope] = append(implied[s.Scope], s.Includes...)
	}
	return auth.NewChain(implied, list...), nil
}

func newAuthenticator(id config.Identity, u *upkeep, log *zap.Logger) (auth.Authenticator, error) {
	switch {
	case id.JWT != nil:
		return newJWT(id.JWT, u, log), nil
	case id.APIKeys != nil:
		return newAPIKeys(id.APIKeys, u, log)
	case id.TrustedHeaders != nil:
		t := id.TrustedHeaders
		peers, err := auth.ParsePeers(t.Peers)
		return auth.NewTrustedHeaders(auth.TrustedHeadersOptions{
			Peers: peers, SubjectHeader: t.SubjectHeader, TenantHeader: t.TenantHeader, ScopesHeader: t.ScopesHeader, Tenant: t.Tenant,
		}), err
	case id.XFCC != nil:
		peers, err := auth.ParsePeers(id.XFCC.Peers)
		if err != nil {
			return nil, err
		}
		rules, err := nameRules(id.XFCC.Names)
		return auth.NewXFCC(peers, rules), err
	}
	rules, err := nameRules(id.MTLS.Names)
	return auth.NewMTLS(rules), err
}

func newJWT(j *config.JWT, u *upkeep, log *zap.Logger) auth.Authenticator {
	client := outsideClient()
	o := auth.KeysOptions{
		Source: auth.KeysFromIssuer(client, j.Issuer), Interval: keysInterval, RetryMin: keysRetry,
		Unknown: keysForUnknown, Timeout: issuerTimeout, Now: time.Now, Log: log.With(zap.String("issuer", j.Issuer)),
	}
	switch {
	case j.JWKSURL != "":
		o.Source = auth.KeysFromURL(client, j.JWKSURL)
	case j.JWKSFile != "":
		o.Source, o.Interval = auth.KeysFromFile(j.JWKSFile), keysFileEvery
	}
	keys := auth.NewKeys(o)
	u.loops = append(u.loops, keys.Run)
	tenant := j.Tenant
	if j.TenantClaim != "" {
		tenant = ""
	}
	return auth.NewJWT(auth.JWTOptions{
		Issuer: j.Issuer, Audience: j.Audience, Algorithms: j.Algorithms, Leeway: j.Leeway,
		SubjectClaim: j.SubjectClaim, TenantClaim: j.TenantClaim, Tenant: tenant, ScopesClaim: j.ScopesClaim,
		Keys: keys, Now: time.Now,
	})
}

// outsideClient asks issuers and token endpoints. It follows no redirect: what
// it brings may be a secret, and what it gets is believed.
func outsideClient() *http.Client {
	return &http.Client{
		Timeout:       issuerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func newAPIKeys(a *config.APIKeys, u *upkeep, log *zap.Logger) (auth.Authenticator, error) {
	fixed := apiKeys(a.Keys)
	if a.File == "" {
		return auth.NewAPIKeys(a.Header, func() []auth.APIKey { return fixed }), nil
	}
	f, err := livefile.Open(func(contents [][]byte) ([]auth.APIKey, error) {
		keys, err := config.ParseAPIKeys(contents[0])
		return slices.Concat(fixed, apiKeys(keys)), err
	}, a.File)
	if err != nil {
		return nil, fmt.Errorf("apiKeys.file: %w", err)
	}
	follow(u, f, "API keys", log)
	return auth.NewAPIKeys(a.Header, f.Get), nil
}

func apiKeys(list []config.APIKey) []auth.APIKey {
	out := make([]auth.APIKey, len(list))
	for i, k := range list {
		out[i] = auth.APIKey{Principal: auth.Principal{Tenant: k.Tenant, Subject: k.Subject}, SHA256: k.SHA256, Scopes: k.Scopes}
	}
	return out
}

func nameRules(list []config.NameRule) ([]auth.NameRule, error) {
	var out []auth.NameRule
	for _, r := range list {
		match, err := auth.CompileName(r.Match)
		if err != nil {
			return nil, fmt.Errorf("names: %w", err)
		}
		out = append(out, auth.NameRule{Field: auth.Field(r.Field), Match: match, Tenant: r.Tenant, Subject: r.Subject, Scopes: r.Scopes})
	}
	return out, nil
}

// newTLS reads the listener's certificates; nil: it does not speak TLS.
func newTLS(cfg config.TLS, u *upkeep, log *zap.Logger) (*auth.ListenerFiles, error) {
	if !cfg.Enabled() {
		return nil, nil
	}
	files, err := auth.OpenTLS(auth.TLSOptions{
		CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, ClientCAFile: cfg.ClientCAFile,
		RequireClient: cfg.ClientAuth == config.ClientRequired, MinVersion: auth.TLSVersion(string(cfg.MinVersion)),
	})
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	follow(u, files, "TLS certificates", log)
	return files, nil
}

// resource is an endpoint as OAuth sees it. publicURL is the gateway's.
func resource(cfg config.Config, u config.Upstream, publicURL string) auth.Resource {
	r := auth.Resource{URL: publicURL + u.Path, Gateway: publicURL, Name: u.Name, Scopes: u.Scopes}
	for _, id := range cfg.Identity {
		if id.JWT != nil {
			r.Issuers = append(r.Issuers, id.JWT.Issuer)
		}
	}
	return r
}

func forwardHeaders(list []config.ForwardHeader) []proxy.ForwardHeader {
	var out []proxy.ForwardHeader
	for _, f := range list {
		out = append(out, proxy.ForwardHeader{Name: f.Name, As: f.To(), Keep: f.Keep})
	}
	return out
}

// shortToken matters only where the client's own token goes on.
func shortToken(a config.UpstreamAuth) proxy.ShortToken {
	if a.Mode != config.AuthForward {
		return proxy.ShortAllow
	}
	return proxy.ShortToken(a.ShortToken)
}

// scheme is that of the MCP listener.
func scheme(cfg config.Config) string {
	if cfg.TLS.Enabled() {
		return "https"
	}
	return "http"
}

// publicURL is what clients call the gateway.
func (a *App) publicURL() string {
	if a.cfg.PublicURL != "" {
		return strings.TrimSuffix(a.cfg.PublicURL, "/")
	}
	return scheme(a.cfg) + "://" + a.listener.Addr().String()
}

// Reload looks at once at every file that may have changed: policy, keys,
// certificates; and opens the audit log anew, so that it can be rotated.
func (a *App) Reload() {
	a.ReloadPolicy()
	for _, reload := range a.upkeep.reloads {
		reload()
	}
	if err := a.audit.Reopen(); err != nil {
		a.log.Error("the audit log goes on where it was", zap.Error(err))
	}
}
