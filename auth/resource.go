package auth

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// Resource is an MCP endpoint as OAuth 2.1 sees it: a protected resource.
type Resource struct {
	// URL is the canonical URI of the endpoint; "" when there is no public URL.
	URL string
	// Gateway is that of the gateway as a whole, a token for which is good at all
	// of its endpoints.
	Gateway string
	// Name is for people.
	Name string
	// Issuers are the authorization servers; without any the resource has no
	// metadata.
	Issuers []string
	// Scopes are what every request to the endpoint needs.
	Scopes []string
}

const wellKnown = "/.well-known/oauth-protected-resource"

// isNamed tells whether an audience is this resource.
func (r *Resource) isNamed(audience string) bool {
	return r != nil && (audience == r.URL || audience == r.Gateway)
}

// MetadataURL is where the metadata are: the well-known path before that of the
// resource (RFC 9728, section 3.1). "": there are none.
func (r *Resource) MetadataURL() string {
	u, err := url.Parse(r.URL)
	if r.URL == "" || err != nil || len(r.Issuers) == 0 {
		return ""
	}
	u.Path = wellKnown + strings.TrimSuffix(u.Path, "/")
	return u.String()
}

// MetadataPath is the path of MetadataURL.
func (r *Resource) MetadataPath() string {
	u, err := url.Parse(r.MetadataURL())
	if err != nil {
		return ""
	}
	return u.Path
}

// Metadata is the document of RFC 9728, section 2.
func (r *Resource) Metadata() []byte {
	b, _ := json.Marshal(struct { // strings always marshal
		Resource string   `json:"resource"`
		Issuers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Bearer   []string `json:"bearer_methods_supported"`
		Name     string   `json:"resource_name,omitempty"`
	}{r.URL, r.Issuers, r.Scopes, []string{"header"}, r.Name})
	return b
}

// Challenge is the value of WWW-Authenticate for a refusal (RFC 6750, section
// 3; RFC 9728, section 5.1). It names all scopes that the request needs.
func (r *Resource) Challenge(d *Denied) string {
	scopes := d.Scopes
	if len(scopes) == 0 {
		scopes = r.Scopes
	}
	params := []struct{ name, value string }{
		{"error", d.Code}, {"scope", strings.Join(scopes, " ")}, {"resource_metadata", r.MetadataURL()},
	}
	if d.Code != "" {
		params = append(params, struct{ name, value string }{"error_description", d.Reason})
	}
	var list []string
	for _, p := range params {
		if p.value != "" {
			list = append(list, fmt.Sprintf("%s=%q", p.name, p.value))
		}
	}
	if len(list) == 0 {
		return `Bearer realm="taskgate"`
	}
	return "Bearer " + strings.Join(list, ", ")
}
