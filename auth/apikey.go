package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// APIKey is a key by its SHA-256 sum. A plain sum is enough because keys are
// random; a password is no key.
type APIKey struct {
	Principal
	SHA256 [sha256.Size]byte
	Scopes []string
}

// APIKeys accepts keys in a header.
type APIKeys struct {
	header string
	keys   func() []APIKey
}

// NewAPIKeys returns an authenticator for the keys that the function lists at
// the time. header is where they are sent: with Authorization, as a bearer
// token; with any other, as they are.
func NewAPIKeys(header string, keys func() []APIKey) *APIKeys {
	return &APIKeys{header: http.CanonicalHeaderKey(header), keys: keys}
}

// Authenticate implements Authenticator.
func (a *APIKeys) Authenticate(req *http.Request, _ *Resource) (Identity, error) {
	key, err := a.find(req)
	if err != nil {
		return Identity{}, err
	}
	sum := sha256.Sum256([]byte(key))
	var found *APIKey
	keys := a.keys()
	for i := range keys { // all of them, so that the time taken tells nothing
		if subtle.ConstantTimeCompare(keys[i].SHA256[:], sum[:]) == 1 {
			found = &keys[i]
		}
	}
	if found == nil {
		return Identity{}, invalidToken("the API key is not known")
	}
	return Identity{Principal: found.Principal, Scopes: found.Scopes, Method: "apiKeys"}, nil
}

func (a *APIKeys) find(req *http.Request) (string, error) {
	if a.header == "Authorization" {
		token, err := bearer(req)
		if err == nil && looksLikeJWT(token) {
			return "", ErrNone
		}
		return token, err
	}
	switch values := req.Header.Values(a.header); len(values) {
	case 0:
		return "", ErrNone
	case 1:
		return values[0], nil
	}
	return "", invalidToken("the header " + a.header + " was sent more than once")
}
