package auth

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

// Authenticator knows one kind of credential.
type Authenticator interface {
	// Authenticate says who sent a request to the resource. Errors: ErrNone when
	// the request has no credential of this kind, *Denied when it has one that is
	// not good, *UnavailableError.
	Authenticate(req *http.Request, at *Resource) (Identity, error)
}

// headerReader is an Authenticator that believes headers of some peers. From
// all others it takes those headers away, whoever vouches for the request.
type headerReader interface {
	strip(req *http.Request)
}

// Chain identifies callers.
type Chain struct {
	authenticators []Authenticator
	implied        map[string][]string
}

// NewChain returns a Chain over authenticators in the order in which they are
// asked; without any every caller is Anonymous. implied lists, by scope, the
// narrower ones that it includes.
func NewChain(implied map[string][]string, authenticators ...Authenticator) *Chain {
	return &Chain{authenticators: authenticators, implied: implied}
}

// Identify says who sent a request to the resource. It takes headers away that
// the sender has no right to (see TrustedHeaders and XFCC). Errors: *Denied,
// *UnavailableError.
func (c *Chain) Identify(req *http.Request, at *Resource) (Identity, error) {
	if len(c.authenticators) == 0 {
		return Identity{Principal: Anonymous, Method: "none"}, nil
	}
	for _, a := range c.authenticators {
		if r, ok := a.(headerReader); ok {
			r.strip(req)
		}
	}
	id, err := c.ask(req, at)
	if err != nil {
		return Identity{}, err
	}
	if err := id.check(); err != nil {
		return Identity{}, err
	}
	id.Scopes = c.closure(id.Scopes)
	return id, nil
}

func (c *Chain) ask(req *http.Request, at *Resource) (Identity, error) {
	for _, a := range c.authenticators {
		if id, err := a.Authenticate(req, at); !errors.Is(err, ErrNone) {
			return id, err
		}
	}
	if req.Header.Get("Authorization") != "" {
		return Identity{}, invalidToken("the credential is of no kind that is known here")
	}
	return Identity{}, &Denied{Status: http.StatusUnauthorized, Reason: "the request carries no credential"}
}

// closure adds the scopes that scopes imply, and those that these imply.
func (c *Chain) closure(scopes []string) []string {
	if len(c.implied) == 0 {
		return scopes
	}
	all := slices.Clone(scopes)
	for i := 0; i < len(all); i++ {
		for _, s := range c.implied[all[i]] {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// bearer returns the token of an Authorization header (RFC 6750, section 2.1;
// the form body and the query are not read, as MCP forbids the latter).
func bearer(req *http.Request) (token string, err error) {
	values := req.Header.Values("Authorization")
	if len(values) == 0 {
		return "", ErrNone
	}
	if len(values) > 1 {
		return "", invalidToken("the header Authorization was sent more than once")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", ErrNone
	}
	return strings.TrimSpace(token), nil
}

// looksLikeJWT tells a token of three parts, the first of which begins like a
// JSON object. No API key that the gateway accepts has this form.
func looksLikeJWT(token string) bool {
	return strings.HasPrefix(token, "eyJ") && strings.Count(token, ".") == 2
}
