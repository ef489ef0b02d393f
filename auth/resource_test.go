package auth_test

import (
	"net/http"
	"testing"

	"taskgate/auth"
)

func TestResourceDocuments(t *testing.T) {
	oauth := auth.Resource{URL: "https://mcp.example.com/reports", Gateway: "https://mcp.example.com", Name: "reports", Issuers: []string{"https://login.example.com"}, Scopes: []string{"reports:read"}}
	tests := []struct {
		name     string
		resource auth.Resource
		url      string
		metadata string
	}{
		{
			"with a path", oauth, "https://mcp.example.com/.well-known/oauth-protected-resource/reports",
			`{"resource":"https://mcp.example.com/reports","authorization_servers":["https://login.example.com"],"scopes_supported":["reports:read"],"bearer_methods_supported":["header"],"resource_name":"reports"}`,
		},
		{
			"without a path", auth.Resource{URL: "https://mcp.example.com", Issuers: []string{"https://login.example.com"}}, "https://mcp.example.com/.well-known/oauth-protected-resource",
			`{"resource":"https://mcp.example.com","authorization_servers":["https://login.example.com"],"bearer_methods_supported":["header"]}`,
		},
		{"a gateway behind a path", auth.Resource{URL: "https://example.com/mcp/reports", Issuers: []string{"https://i"}}, "https://example.com/.well-known/oauth-protected-resource/mcp/reports", `{"resource":"https://example.com/mcp/reports","authorization_servers":["https://i"],"bearer_methods_supported":["header"]}`},
		{"nobody issues tokens", auth.Resource{URL: "https://mcp.example.com"}, "", ""},
		{"no public name", auth.Resource{Issuers: []string{"https://login.example.com"}}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.resource.MetadataURL(); got != tt.url {
				t.Errorf("got the URL %q, want %q", got, tt.url)
			}
			if tt.url == "" {
				return
			}
			if got := string(tt.resource.Metadata()); got != tt.metadata {
				t.Errorf("got  %s\nwant %s", got, tt.metadata)
			}
		})
	}
}

func TestChallenge(t *testing.T) {
	oauth := auth.Resource{URL: "https://mcp.example.com/reports", Issuers: []string{"https://login.example.com"}, Scopes: []string{"reports:read"}}
	const metadata = `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/reports"`
	tests := []struct {
		name     string
		resource auth.Resource
		denied   *auth.Denied
		want     string
	}{
		{"no credential", oauth, &auth.Denied{Status: http.StatusUnauthorized, Reason: "none"}, `Bearer scope="reports:read", ` + metadata},
		{"a bad one", oauth, &auth.Denied{Status: http.StatusUnauthorized, Code: "invalid_token", Reason: "it has expired"}, `Bearer error="invalid_token", scope="reports:read", ` + metadata + `, error_description="it has expired"`},
		{"one that is not enough", oauth, &auth.Denied{Status: http.StatusForbidden, Code: "insufficient_scope", Reason: "no", Scopes: []string{"reports:read", "reports:write"}}, `Bearer error="insufficient_scope", scope="reports:read reports:write", ` + metadata + `, error_description="no"`},
		{"without OAuth", auth.Resource{}, &auth.Denied{Status: http.StatusUnauthorized, Reason: "none"}, `Bearer realm="taskgate"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.resource.Challenge(tt.denied); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
