package app_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"taskgate/auth/authtest"
	"taskgate/internal/mcptest"
	"taskgate/wire"
)

const public = "https://mcp.example.com"

// oauthGateway has two endpoints that take tokens of the issuer.
func oauthGateway(t *testing.T, issuer *authtest.Issuer) (*gateway, *mcptest.Upstream) {
	t.Helper()
	u := mcptest.NewModern(askingTools()...)
	url := u.Start(t)
	g := start(t, `
publicURL: `+public+`
identity: [{jwt: {issuer: "`+issuer.URL+`", tenantClaim: org}}]
impliedScopes: [{scope: reports, includes: ["reports:read", "reports:write"]}]
upstreams:
  - {name: reports, path: /reports, url: "`+url+`", scopes: ["reports:read"]}
  - {name: billing, path: /billing, url: "`+url+`"}
`, "rules:\n  - match: {tool: block}\n    scopes: [reports:write]\n")
	return g, u
}

func token(issuer *authtest.Issuer, subject, audience, scope string) string {
	return issuer.Token(subject, audience, jwt.MapClaims{"org": "acme", "scope": scope})
}

func TestChallenges(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	g, u := oauthGateway(t, issuer)
	reading := token(issuer, "ann", public+"/reports", "reports:read")
	expired := issuer.Token("ann", public, jwt.MapClaims{"org": "acme", "exp": time.Now().Add(-time.Hour).Unix()})
	const metadata = `resource_metadata="` + public + `/.well-known/oauth-protected-resource/reports"`
	tests := []struct {
		name, token, tool string
		status            int
		challenge, body   string
	}{
		{
			"no token", "", "echo", 401, `Bearer scope="reports:read", ` + metadata,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Unauthorized: the request carries no credential","data":{"reason":"unauthorized"}}}`,
		},
		{
			"an expired token", expired, "echo", 401, `Bearer error="invalid_token", scope="reports:read", ` + metadata + `, error_description="the access token has expired"`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Unauthorized: the access token has expired","data":{"reason":"invalid_token"}}}`,
		},
		{
			"a token for another endpoint", token(issuer, "ann", public+"/billing", "reports:read"), "echo", 401,
			`Bearer error="invalid_token", scope="reports:read", ` + metadata + `, error_description="the access token was issued for another resource"`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Unauthorized: the access token was issued for another resource","data":{"reason":"invalid_token"}}}`,
		},
		{
			"a token without the endpoint's scope", token(issuer, "ann", public+"/reports", "profile"), "echo", 403,
			`Bearer error="insufficient_scope", scope="reports:read", ` + metadata + `, error_description="this needs a scope that the credential does not have"`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Forbidden: this needs a scope that the credential does not have","data":{"reason":"insufficient_scope","scope":"reports:read"}}}`,
		},
		{
			"a token without the tool's scope", reading, "block", 403,
			`Bearer error="insufficient_scope", scope="reports:read reports:write", ` + metadata + `, error_description="this needs a scope that the credential does not have"`,
			`{"jsonrpc":"2.0","id":9,"error":{"code":-32600,"message":"Forbidden: this needs a scope that the credential does not have","data":{"reason":"insufficient_scope","scope":"reports:read reports:write"}}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := g.client(t, "/reports", mcptest.TasksAndInput)
			if tt.token != "" {
				c.Header.Set("Authorization", "Bearer "+tt.token)
			}
			r := must(t)(c.CallTool(t.Context(), tt.tool, `{}`, mcptest.WithID(wire.Raw("9"))))
			if r.Status != tt.status || r.Header.Get("WWW-Authenticate") != tt.challenge || string(r.Body) != tt.body {
				t.Errorf("got  %d %s\n     %s\nwant %d %s\n     %s", r.Status, r.Header.Get("WWW-Authenticate"), r.Body, tt.status, tt.challenge, tt.body)
			}
		})
	}
	if ran := u.Calls("", ""); len(ran) > 0 {
		t.Errorf("the upstream ran %v", ran)
	}

	for name, good := range map[string]string{
		"its own": reading, "a broader scope": token(issuer, "ann", public+"/reports", "reports"), "for the whole gateway": token(issuer, "ann", public, "reports:read"),
	} {
		c := g.client(t, "/reports", mcptest.TasksAndInput, "Authorization", "Bearer "+good)
		if r := must(t)(c.CallTool(t.Context(), "echo", `{"text":"hi"}`)); r.Text() != "hi" {
			t.Errorf("%s: got %d %s", name, r.Status, r.Body)
		}
	}
}

// TestMetadata reads what the go-sdk's client reads.
func TestMetadata(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	g, _ := oauthGateway(t, issuer)
	base := strings.TrimSuffix(g.Endpoints()[0], "/billing")
	get := func(method, path string, header ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}

	r := must(t)(g.client(t, "/reports", mcptest.TasksAndInput).CallTool(t.Context(), "echo", `{}`))
	challenges, err := oauthex.ParseWWWAuthenticate(r.Header.Values("WWW-Authenticate"))
	if err != nil || len(challenges) != 1 || challenges[0].Params["scope"] != "reports:read" {
		t.Fatalf("challenges: %v, %v", challenges, err)
	}
	local := strings.Replace(challenges[0].Params["resource_metadata"], public, base, 1)
	doc, err := oauthex.GetProtectedResourceMetadata(t.Context(), local, public+"/reports", http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(doc.AuthorizationServers, []string{issuer.URL}) || !slices.Equal(doc.ScopesSupported, []string{"reports:read"}) ||
		!slices.Equal(doc.BearerMethodsSupported, []string{"header"}) || doc.ResourceName != "reports" {
		t.Errorf("got %+v", doc)
	}
	if _, err := oauthex.GetProtectedResourceMetadata(t.Context(), base+"/.well-known/oauth-protected-resource", public, http.DefaultClient); err != nil {
		t.Errorf("at the root: %v", err)
	}

	for name, resp := range map[string]*http.Response{
		"an unknown path":                  get("GET", "/.well-known/oauth-protected-resource/nothing"),
		"of a browser that was lured here": get("GET", "/.well-known/oauth-protected-resource/reports", "Origin", "https://evil.example"),
		"a POST":                           get("POST", "/.well-known/oauth-protected-resource/reports"),
	} {
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode/100 != 4 || !strings.Contains(string(body), `"error"`) {
			t.Errorf("%s: got %d %s, %v", name, resp.StatusCode, body, err)
		}
	}
	resp := get("GET", "/.well-known/oauth-protected-resource/reports")
	if resp.Header.Get("Content-Type") != "application/json" || resp.StatusCode != http.StatusOK {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
}

// TestIssuerDown: nobody is turned away for good because keys cannot be read.
func TestIssuerDown(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	issuer.Down(true)
	g, _ := oauthGateway(t, issuer)
	c := g.client(t, "/billing", mcptest.TasksAndInput, "Authorization", "Bearer "+token(issuer, "ann", public, ""))
	r := must(t)(c.CallTool(t.Context(), "echo", `{"text":"hi"}`))
	if r.Status != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || r.Header.Get("WWW-Authenticate") != "" || !strings.Contains(string(r.Body), "identity_unavailable") {
		t.Errorf("got %d %v %s", r.Status, r.Header, r.Body)
	}
	issuer.Down(false)
	mcptest.Eventually(t, limit, "the keys are read by themselves", func() bool {
		return must(t)(c.CallTool(t.Context(), "echo", `{"text":"hi"}`)).Text() == "hi"
	})
}

// TestListenEndsWithItsCredential: a stream does not outlive the token by which
// it was opened, and ends as it should.
func TestListenEndsWithItsCredential(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	g, _ := oauthGateway(t, issuer)
	fresh := g.client(t, "/billing", mcptest.TasksAndInput, "Authorization", "Bearer "+token(issuer, "ann", public, ""))
	id := task(t, fresh, "ask", `{}`)
	short := issuer.Token("ann", public, jwt.MapClaims{"org": "acme", "exp": time.Now().Add(2 * time.Second).Unix()})
	c := g.client(t, "/billing", mcptest.TasksAndInput, "Authorization", "Bearer "+short)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	params := `{"notifications":{"taskIds":["` + id + `"]}}`
	r := must(t)(c.Call(ctx, "subscriptions/listen", wire.Raw(params)))
	if len(r.Notifications) != 2 || r.Type() != wire.ResultComplete {
		t.Errorf("got %s", r.Body)
	}
}
