package auth_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"taskgate/auth"
)

// from is a request on a connection from an address.
func from(t *testing.T, addr string, header ...string) *http.Request {
	t.Helper()
	req := request(t, header...)
	req.RemoteAddr = addr
	return req
}

func peers(t *testing.T, list ...string) auth.Peers {
	t.Helper()
	p, err := auth.ParsePeers(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParsePeersRefuses(t *testing.T) {
	for _, bad := range []string{"", "ingress", "10.0.0.0/33", "spiffe://", "spiffe://td", "https://td/x", "10.0.0.1:80"} {
		if _, err := auth.ParsePeers([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestTrustedHeaders(t *testing.T) {
	chain := auth.NewChain(nil, auth.NewTrustedHeaders(auth.TrustedHeadersOptions{
		Peers: peers(t, "10.1.0.0/16", "fd00::1"), SubjectHeader: "X-User", TenantHeader: "X-Tenant", ScopesHeader: "X-Scopes",
	}))
	const none = "the request carries no credential"
	tests := []struct {
		name   string
		req    *http.Request
		want   auth.Principal
		scopes []string
		reason string
	}{
		{"a peer", from(t, "10.1.2.3:4444", "X-User", "ann", "X-Tenant", "acme", "X-Scopes", "a b"), auth.Principal{Tenant: "acme", Subject: "ann"}, []string{"a", "b"}, ""},
		{"a peer over IPv6", from(t, "[fd00::1]:4444", "X-User", "ann", "X-Tenant", "acme"), auth.Principal{Tenant: "acme", Subject: "ann"}, nil, ""},
		{"a peer as IPv4 in IPv6", from(t, "[::ffff:10.1.2.3]:4444", "X-User", "ann", "X-Tenant", "acme"), auth.Principal{Tenant: "acme", Subject: "ann"}, nil, ""},
		{"somebody else", from(t, "10.2.0.1:4444", "X-User", "ann", "X-Tenant", "acme"), auth.Principal{}, nil, none},
		{"somebody else who says where he comes from", from(t, "10.2.0.1:4444", "X-User", "ann", "X-Tenant", "acme", "X-Forwarded-For", "10.1.2.3", "X-Real-Ip", "10.1.2.3"), auth.Principal{}, nil, none},
		{"an address that is none", from(t, "@", "X-User", "ann", "X-Tenant", "acme"), auth.Principal{}, nil, none},
		{"two subjects: one is the client's own", from(t, "10.1.2.3:4444", "X-User", "root", "X-User", "ann", "X-Tenant", "acme"), auth.Principal{}, nil, "the header X-User is needed exactly once"},
		{"two tenants", from(t, "10.1.2.3:4444", "X-User", "ann", "X-Tenant", "acme", "X-Tenant", "globex"), auth.Principal{}, nil, "the header X-Tenant is needed exactly once"},
		{"no tenant", from(t, "10.1.2.3:4444", "X-User", "ann"), auth.Principal{}, nil, "the header X-Tenant is needed exactly once"},
		{"an empty subject", from(t, "10.1.2.3:4444", "X-User", " ", "X-Tenant", "acme"), auth.Principal{}, nil, "the credential names no subject"},
		{"a peer without the headers", from(t, "10.1.2.3:4444"), auth.Principal{}, nil, none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := chain.Identify(tt.req, reports())
			if tt.reason != "" {
				refusedBecause(t, err, tt.reason)
				return
			}
			if err != nil || got.Principal != tt.want || !slices.Equal(got.Scopes, tt.scopes) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// TestUntrustedHeadersAreRemoved: also when somebody gets in by another
// credential, or policy and upstreams would see what was only claimed.
func TestUntrustedHeadersAreRemoved(t *testing.T) {
	keys := apiKeys("X-Api-Key", key("acme", "ci", "k"))
	trusted := auth.NewTrustedHeaders(auth.TrustedHeadersOptions{
		Peers: peers(t, "10.1.0.0/16"), SubjectHeader: "X-User", TenantHeader: "X-Tenant", ScopesHeader: "X-Scopes",
	})
	xfcc := auth.NewXFCC(peers(t, "10.1.0.0/16"), nil)
	claimed := []string{"X-User", "root", "X-Tenant", "globex", "X-Scopes", "admin", auth.HeaderXFCC, "URI=spiffe://td/root", "X-Api-Key", "k"}
	for _, chain := range []*auth.Chain{auth.NewChain(nil, keys, trusted, xfcc), auth.NewChain(nil, trusted, xfcc, keys)} {
		req := from(t, "10.2.0.1:1", claimed...)
		got, err := chain.Identify(req, reports())
		if err != nil || got.Subject != "ci" || got.Tenant != "acme" {
			t.Errorf("got %+v, %v", got, err)
		}
		for _, name := range []string{"X-User", "X-Tenant", "X-Scopes", auth.HeaderXFCC} {
			if v := req.Header.Get(name); v != "" {
				t.Errorf("%s is still there: %q", name, v)
			}
		}
	}
	req := from(t, "10.1.0.1:1", claimed...)
	if _, err := auth.NewChain(nil, keys, trusted).Identify(req, reports()); err != nil || req.Header.Get("X-User") != "root" {
		t.Errorf("a peer's own headers were removed: %v", err)
	}
}

func TestXFCC(t *testing.T) {
	const gateway = "spiffe://mesh/ns/edge/sa/ingress"
	byNamespace := []auth.NameRule{
		{Field: auth.FieldURI, Match: compile(t, `spiffe://mesh/ns/([^/]+)/sa/([^/]+)`), Tenant: "$1", Subject: "$2", Scopes: []string{"run"}},
		{Field: auth.FieldDNS, Match: compile(t, `(?P<host>[a-z]+)\.example\.com`), Tenant: "hosts", Subject: "${host}"},
		{Field: auth.FieldSubject, Match: compile(t, `CN=([^,]+),O=Acme`), Tenant: "acme", Subject: "$1"},
	}
	const unreadable = "the header X-Forwarded-Client-Cert cannot be read"
	const noSPIFFE, noRule = "the client certificate has no SPIFFE id", "no rule names the bearer of the client certificate"
	tests := []struct {
		name   string
		rules  []auth.NameRule
		values []string
		want   auth.Principal
		reason string
	}{
		{"what a sidecar sends", nil, []string{`By=spiffe://mesh/ns/default/sa/taskgate;Hash=468ed33be74eee6556d90c0149c1309e9ba61d6425303443c0748a02dd8de688;Subject="";URI=spiffe://mesh/ns/a/sa/b`}, auth.Principal{Tenant: "mesh", Subject: "spiffe://mesh/ns/a/sa/b"}, ""},
		{"by rules", byNamespace, []string{`Hash=1;URI=spiffe://mesh/ns/a/sa/b`}, auth.Principal{Tenant: "a", Subject: "b"}, ""},
		{"a DNS name, keys in any case", byNamespace, []string{`hash=1;uri=urn:x;dns=other.test;DNS=ann.example.com`}, auth.Principal{Tenant: "hosts", Subject: "ann"}, ""},
		{"a subject in quotes with separators", byNamespace, []string{`Hash=1;Subject="CN=ann,O=Acme";URI=`}, auth.Principal{Tenant: "acme", Subject: "ann"}, ""},
		{"the last of two elements", nil, []string{`URI=spiffe://mesh/root,URI=spiffe://mesh/ann`}, auth.Principal{Tenant: "mesh", Subject: "spiffe://mesh/ann"}, ""},
		{"elements in two headers", nil, []string{`URI=spiffe://mesh/root`, `URI=spiffe://mesh/ann`}, auth.Principal{Tenant: "mesh", Subject: "spiffe://mesh/ann"}, ""},
		{"before a trusted proxy", nil, []string{`URI=spiffe://mesh/ann,URI=` + gateway}, auth.Principal{Tenant: "mesh", Subject: "spiffe://mesh/ann"}, ""},
		{"before a trusted proxy only what that one saw", nil, []string{`URI=spiffe://mesh/root,URI=spiffe://mesh/ann,URI=` + gateway}, auth.Principal{Tenant: "mesh", Subject: "spiffe://mesh/ann"}, ""},
		{"the proxy itself", nil, []string{`URI=` + gateway}, auth.Principal{Tenant: "mesh", Subject: gateway}, ""},
		{"a subject that plays an element", nil, []string{`URI=spiffe://mesh/ann;Subject="x\",URI=spiffe://mesh/root"`}, auth.Principal{Tenant: "mesh", Subject: "spiffe://mesh/ann"}, ""},
		{"no URI in the last element", nil, []string{`URI=spiffe://mesh/root,Hash=1`}, auth.Principal{}, noSPIFFE},
		{"two URIs", nil, []string{`URI=spiffe://mesh/root;URI=spiffe://mesh/ann`}, auth.Principal{}, noSPIFFE},
		{"another kind of URI", nil, []string{`URI=https://mesh/ann`}, auth.Principal{}, noSPIFFE},
		{"a rule matches whole names only", byNamespace, []string{`URI=spiffe://mesh/ns/a/sa/b/c`}, auth.Principal{}, noRule},
		{"empty", nil, []string{``}, auth.Principal{}, unreadable},
		{"no pair", nil, []string{`spiffe://mesh/ann`}, auth.Principal{}, unreadable},
		{"an open quote", nil, []string{`URI=spiffe://mesh/ann;Subject="CN=x`}, auth.Principal{}, unreadable},
		{"text after a quote", nil, []string{`Subject="CN=x"y;URI=spiffe://mesh/ann`}, auth.Principal{}, unreadable},
		{"a quote within a value", nil, []string{`URI=spiffe://mesh/a"nn`}, auth.Principal{}, unreadable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			chain := auth.NewChain(nil, auth.NewXFCC(peers(t, "127.0.0.1", gateway), tt.rules))
			req := from(t, "127.0.0.1:4444")
			req.Header[auth.HeaderXFCC] = tt.values
			got, err := chain.Identify(req, reports())
			if tt.reason != "" {
				refusedBecause(t, err, tt.reason)
				return
			}
			if err != nil || got.Principal != tt.want {
				t.Errorf("got %+v, %v", got, err)
			}
			req = from(t, "127.0.0.2:4444")
			req.Header[auth.HeaderXFCC] = tt.values
			_, err = chain.Identify(req, reports())
			refusedBecause(t, err, "the request carries no credential")
		})
	}
}

// FuzzXFCC: whatever a header holds, the caller is one whom the last element
// names, or nobody.
func FuzzXFCC(f *testing.F) {
	f.Add(`By=spiffe://a/b;Hash=1;Subject="CN=\"x\",O=y";URI=spiffe://mesh/ann,URI=spiffe://mesh/bob`)
	f.Add(`URI="spiffe://mesh/ann"`)
	network, err := auth.ParsePeers([]string{"127.0.0.1"})
	if err != nil {
		f.Fatal(err)
	}
	chain := auth.NewChain(nil, auth.NewXFCC(network, nil))
	f.Fuzz(func(t *testing.T, header string) {
		req := httptest.NewRequest(http.MethodPost, "/reports", nil)
		req.RemoteAddr = "127.0.0.1:1"
		req.Header[auth.HeaderXFCC] = []string{header, "URI=spiffe://mesh/last"}
		got, err := chain.Identify(req, reports())
		if err == nil && got.Subject != "spiffe://mesh/last" {
			t.Errorf("%q made the caller %q", header, got.Subject)
		}
	})
}
