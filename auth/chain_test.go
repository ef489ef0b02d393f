package auth_test

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"testing"

	"taskgate/auth"
	"taskgate/auth/authtest"
)

func key(tenant, subject, secret string, scopes ...string) auth.APIKey {
	return auth.APIKey{Principal: auth.Principal{Tenant: tenant, Subject: subject}, SHA256: sha256.Sum256([]byte(secret)), Scopes: scopes}
}

func apiKeys(header string, keys ...auth.APIKey) *auth.APIKeys {
	return auth.NewAPIKeys(header, func() []auth.APIKey { return keys })
}

func TestAPIKeys(t *testing.T) {
	bearer := auth.NewChain(nil, apiKeys("authorization", key("acme", "ci", "k-1", "run"), key("globex", "ci", "k-2")))
	own := auth.NewChain(nil, apiKeys("x-api-key", key("acme", "ci", "k-1")))
	tests := []struct {
		name   string
		chain  *auth.Chain
		header []string
		want   auth.Principal
		reason string
	}{
		{"the first", bearer, []string{"Authorization", "Bearer k-1"}, auth.Principal{Tenant: "acme", Subject: "ci"}, ""},
		{"the last", bearer, []string{"Authorization", "Bearer k-2"}, auth.Principal{Tenant: "globex", Subject: "ci"}, ""},
		{"unknown", bearer, []string{"Authorization", "Bearer k-3"}, auth.Principal{}, "the API key is not known"},
		{"empty", bearer, []string{"Authorization", "Bearer "}, auth.Principal{}, "the API key is not known"},
		{"the sum instead of the key", bearer, []string{"Authorization", "Bearer 7a0a42a2b42b7d3e2d0c8c7c53e1f4a9"}, auth.Principal{}, "the API key is not known"},
		{"none", bearer, nil, auth.Principal{}, "the request carries no credential"},
		{"in another header than that configured", bearer, []string{"X-Api-Key", "k-1"}, auth.Principal{}, "the request carries no credential"},
		{"a header of its own", own, []string{"X-Api-Key", "k-1"}, auth.Principal{Tenant: "acme", Subject: "ci"}, ""},
		{"twice", own, []string{"X-Api-Key", "k-1", "X-Api-Key", "k-1"}, auth.Principal{}, "the header X-Api-Key was sent more than once"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.chain.Identify(request(t, tt.header...), reports())
			if tt.reason != "" {
				refusedBecause(t, err, tt.reason)
				return
			}
			if err != nil || got.Principal != tt.want || got.Token != "" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// TestFirstCredentialDecides: whoever shows a bad credential does not get in by
// another one, and order is what configuration says.
func TestFirstCredentialDecides(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	jwt := auth.NewJWT(jwtOptions(issuer))
	bearer := apiKeys("Authorization", key("acme", "ci", "k-1"))
	own := apiKeys("X-Api-Key", key("acme", "robot", "k-2"))
	good := issuer.Token("ann", gatewayURL, nil)
	foreign := issuer.Token("ann", "https://other.example.com", nil)
	tests := []struct {
		name    string
		chain   *auth.Chain
		header  []string
		subject string
	}{
		{"a token, tokens first", auth.NewChain(nil, jwt, bearer), []string{"Authorization", "Bearer " + good}, "ann"},
		{"a token, keys first", auth.NewChain(nil, bearer, jwt), []string{"Authorization", "Bearer " + good}, "ann"},
		{"a key, tokens first", auth.NewChain(nil, jwt, bearer), []string{"Authorization", "Bearer k-1"}, "ci"},
		{"both, tokens first", auth.NewChain(nil, jwt, own), []string{"Authorization", "Bearer " + good, "X-Api-Key", "k-2"}, "ann"},
		{"both, keys first", auth.NewChain(nil, own, jwt), []string{"Authorization", "Bearer " + good, "X-Api-Key", "k-2"}, "robot"},
		{"a bad token beside a good key", auth.NewChain(nil, jwt, own), []string{"Authorization", "Bearer " + foreign, "X-Api-Key", "k-2"}, ""},
		{"a bad key beside a good token", auth.NewChain(nil, own, jwt), []string{"Authorization", "Bearer " + good, "X-Api-Key", "k-3"}, ""},
		{"nothing", auth.NewChain(nil, jwt, own), nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.chain.Identify(request(t, tt.header...), reports())
			var denied *auth.Denied
			if tt.subject == "" {
				if !errors.As(err, &denied) || denied.Status != http.StatusUnauthorized {
					t.Errorf("got %+v, %v; want a 401", got, err)
				}
				return
			}
			if err != nil || got.Subject != tt.subject {
				t.Errorf("got %+v, %v; want %s", got, err, tt.subject)
			}
		})
	}
}

func TestWithoutIdentityEverybodyIsOne(t *testing.T) {
	got, err := auth.NewChain(nil).Identify(request(t, "Authorization", "Bearer whatever"), reports())
	if err != nil || got.Principal != auth.Anonymous || got.Token != "" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestScopes(t *testing.T) {
	chain := auth.NewChain(map[string][]string{"admin": {"write"}, "write": {"read", "admin"}}, apiKeys("X-Api-Key", key("a", "b", "k", "admin"), key("a", "c", "l", "read")))
	admin, err := chain.Identify(request(t, "X-Api-Key", "k"), reports())
	if err != nil || !slices.Equal(admin.Scopes, []string{"admin", "write", "read"}) {
		t.Errorf("a broad scope implies narrower ones: got %q, %v", admin.Scopes, err)
	}
	if err := admin.Require("read", "write"); err != nil {
		t.Error(err)
	}
	reader, err := chain.Identify(request(t, "X-Api-Key", "l"), reports())
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Require(); err != nil {
		t.Errorf("nothing was needed: %v", err)
	}
	var denied *auth.Denied
	if err := reader.Require("read", "write"); !errors.As(err, &denied) || denied.Status != http.StatusForbidden ||
		denied.Code != "insufficient_scope" || !slices.Equal(denied.Scopes, []string{"read", "write"}) {
		t.Errorf("got %v", err)
	}
}
