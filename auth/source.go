package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// maxDocument bounds what an issuer may send, in bytes.
const maxDocument = 1 << 20

// KeysFromFile reads a JWK Set from a file.
func KeysFromFile(path string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return os.ReadFile(path) }
}

// KeysFromURL reads a JWK Set from a URL.
func KeysFromURL(client *http.Client, address string) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) { return get(ctx, client, address) }
}

// KeysFromIssuer finds the JWK Set by the issuer's metadata, which is read each
// time (OpenID Connect Discovery, section 4; RFC 8414, section 3).
func KeysFromIssuer(client *http.Client, issuer string) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		address, err := discover(ctx, client, issuer)
		if err != nil {
			return nil, err
		}
		return get(ctx, client, address)
	}
}

// discover returns jwks_uri.
func discover(ctx context.Context, client *http.Client, issuer string) (string, error) {
	var first error
	for _, address := range metadataURLs(issuer) {
		address, err := jwksURI(ctx, client, issuer, address)
		if err == nil {
			return address, nil
		}
		if first == nil {
			first = err
		}
	}
	return "", first
}

// metadataURLs are where an issuer's metadata may be.
func metadataURLs(issuer string) []string {
	urls := []string{strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"}
	if u, err := url.Parse(issuer); err == nil {
		u.Path = "/.well-known/oauth-authorization-server" + strings.TrimSuffix(u.Path, "/")
		urls = append(urls, u.String())
	}
	return urls
}

func jwksURI(ctx context.Context, client *http.Client, issuer, address string) (string, error) {
	body, err := get(ctx, client, address)
	if err != nil {
		return "", err
	}
	var m struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return "", fmt.Errorf("metadata at %s: %w", address, err)
	}
	if m.Issuer != issuer { // RFC 8414, section 3.3
		return "", fmt.Errorf("metadata at %s: it is that of issuer %.200q", address, m.Issuer)
	}
	if from, err := url.Parse(issuer); err == nil && from.Scheme == "https" && !strings.HasPrefix(m.JWKSURI, "https://") {
		return "", fmt.Errorf("metadata at %s: jwks_uri is not https", address)
	}
	return m.JWKSURI, nil
}

func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", address, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", address, err)
	}
	if len(body) > maxDocument {
		return nil, fmt.Errorf("GET %s: more than %d bytes", address, maxDocument)
	}
	return body, nil
}
