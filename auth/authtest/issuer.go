// Package authtest is an OpenID provider for tests: it publishes its metadata
// and keys, signs tokens, rotates keys and exchanges tokens (RFC 8693) over HTTP
// as a real one does, and remembers what it was asked.
package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Issuer is a running OpenID provider.
type Issuer struct {
	*httptest.Server
	t testing.TB

	mu        sync.Mutex
	keys      []*Key
	down      bool
	requests  map[string]int // by path
	exchanges []url.Values
	lifetime  time.Duration
	exchange  http.HandlerFunc // nil: tokens are exchanged
}

// Key is a signing key of an issuer.
type Key struct {
	ID     string
	Method jwt.SigningMethod
	Signer crypto.Signer
}

// NewIssuer starts an issuer with an RSA key; the test ends it.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t, requests: map[string]int{}, lifetime: time.Hour}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	i.AddRSA("rsa-1")
	return i
}

// AddRSA adds a key for RS256 and makes it the newest.
func (i *Issuer) AddRSA(id string) *Key {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		i.t.Fatal(err)
	}
	return i.add(&Key{ID: id, Method: jwt.SigningMethodRS256, Signer: k})
}

// AddEC adds a key for ES256 and makes it the newest.
func (i *Issuer) AddEC(id string) *Key {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	return i.add(&Key{ID: id, Method: jwt.SigningMethodES256, Signer: k})
}

func (i *Issuer) add(k *Key) *Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, k)
	return k
}

// Remove takes a key out of the published set.
func (i *Issuer) Remove(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var left []*Key
	for _, k := range i.keys {
		if k.ID != id {
			left = append(left, k)
		}
	}
	i.keys = left
}

// Down makes the issuer answer 503, or answer again.
func (i *Issuer) Down(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// Requests is how often a path was asked for.
func (i *Issuer) Requests(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests[path]
}

// Exchanges are the forms that came to the token endpoint.
func (i *Issuer) Exchanges() []url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]url.Values(nil), i.exchanges...)
}

// SetLifetime is how long exchanged tokens are good.
func (i *Issuer) SetLifetime(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lifetime = d
}

// SetExchange replaces what the token endpoint does.
func (i *Issuer) SetExchange(f http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.exchange = f
}

// Claims are those of a good token for audience, with changes made to them; a
// nil value takes a claim out.
func (i *Issuer) Claims(subject, audience string, changes jwt.MapClaims) jwt.MapClaims {
	now := time.Now()
	c := jwt.MapClaims{
		"iss": i.URL, "sub": subject, "aud": audience,
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	for name, v := range changes {
		if c[name] = v; v == nil {
			delete(c, name)
		}
	}
	return c
}

// Token signs Claims with the newest key.
func (i *Issuer) Token(subject, audience string, changes jwt.MapClaims) string {
	i.mu.Lock()
	key := i.keys[len(i.keys)-1]
	i.mu.Unlock()
	return i.Sign(key, i.Claims(subject, audience, changes))
}

// Sign signs claims with a key.
func (i *Issuer) Sign(k *Key, claims jwt.Claims) string {
	i.t.Helper()
	token := jwt.NewWithClaims(k.Method, claims)
	token.Header["kid"] = k.ID
	s, err := token.SignedString(k.Signer)
	if err != nil {
		i.t.Fatal(err)
	}
	return s
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	i.mu.Lock()
	i.requests[req.URL.Path]++
	down, exchange := i.down, i.exchange
	i.mu.Unlock()
	if down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	switch req.URL.Path {
	case "/.well-known/openid-configuration":
		reply(w, map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "token_endpoint": i.URL + "/token"})
	case "/keys":
		reply(w, map[string]any{"keys": i.publicKeys()})
	case "/token":
		_ = req.ParseForm()
		i.mu.Lock()
		i.exchanges = append(i.exchanges, req.PostForm)
		i.mu.Unlock()
		if exchange == nil {
			exchange = i.exchangeToken
		}
		exchange(w, req)
	default:
		http.NotFound(w, req)
	}
}

// exchangeToken issues an opaque token that tells what it was made of.
func (i *Issuer) exchangeToken(w http.ResponseWriter, req *http.Request) {
	id, secret, ok := req.BasicAuth()
	if !ok || id != "gateway" || secret != "s3cret" {
		w.WriteHeader(http.StatusUnauthorized)
		reply(w, map[string]string{"error": "invalid_client"})
		return
	}
	i.mu.Lock()
	n, lifetime := len(i.exchanges), i.lifetime
	i.mu.Unlock()
	reply(w, map[string]any{
		"access_token": fmt.Sprintf("exchanged-%d", n), "token_type": "Bearer", "expires_in": int(lifetime.Seconds()),
		"issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "refresh_token": fmt.Sprintf("refresh-%d", n),
	})
}

func (i *Issuer) publicKeys() []map[string]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := []map[string]string{
		{"kty": "OKP", "crv": "X9999", "kid": "of-tomorrow", "x": "AA"}, // a kind that nobody knows yet
	}
	for _, k := range i.keys {
		out = append(out, k.jwk())
	}
	return out
}

func (k *Key) jwk() map[string]string {
	out := map[string]string{"kid": k.ID, "use": "sig", "alg": k.Method.Alg()}
	switch p := k.Signer.Public().(type) {
	case *rsa.PublicKey:
		out["kty"], out["n"], out["e"] = "RSA", encode(p.N.Bytes()), encode(big.NewInt(int64(p.E)).Bytes())
	case *ecdsa.PublicKey:
		point, _ := p.Bytes() // 4, x, y
		out["kty"], out["crv"], out["x"], out["y"] = "EC", "P-256", encode(point[1:33]), encode(point[33:])
	}
	return out
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
