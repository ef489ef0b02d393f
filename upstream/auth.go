package upstream

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Auth makes requests acceptable to an upstream.
type Auth interface {
	// Authorize sets the Authorization header of a request. Errors are *Error.
	Authorize(ctx context.Context, h http.Header) error
	// Renew is told that the upstream refused (401) a request with this header,
	// and whether to try once more with what Authorize sets then.
	Renew(ctx context.Context, h http.Header) bool
}

// Static is a token of the gateway's own, the same for every client.
type Static struct {
	// Token is looked up for every request; Reload looks at its source and tells
	// whether it has changed.
	Token  func() string
	Reload func() (bool, error)
}

// Authorize implements Auth.
func (s Static) Authorize(_ context.Context, h http.Header) error {
	setBearer(h, s.Token())
	return nil
}

// Renew implements Auth.
func (s Static) Renew(context.Context, http.Header) bool {
	changed, err := s.Reload()
	return changed && err == nil
}

// Forward sends the client's own access token. MCP forbids that unless the
// token is meant for the upstream too (authorization, Token Handling).
type Forward struct{ Now func() time.Time }

// Authorize implements Auth.
func (f Forward) Authorize(ctx context.Context, h http.Header) error {
	token, err := liveToken(ctx, f.Now())
	if err != nil {
		return err
	}
	setBearer(h, token)
	return nil
}

// Renew implements Auth.
func (Forward) Renew(context.Context, http.Header) bool { return false }

// Why there is no token to go on with.
var (
	errNoClient = errors.New("the client's credentials are not kept, and without them the request cannot be sent")
	errNoToken  = errors.New("the client did not come with an access token")
	errExpired  = errors.New("the client's access token has expired")
)

// liveToken is the client's token while it is good.
func liveToken(ctx context.Context, now time.Time) (string, error) {
	c := credentialsOf(ctx)
	switch {
	case c == nil:
		return "", unauthorized(errNoClient)
	case c.Token == "":
		return "", unauthorized(errNoToken)
	case !c.Expires.IsZero() && !now.Before(c.Expires):
		return "", unauthorized(errExpired)
	}
	return c.Token, nil
}

// unauthorized is a failure before anything was sent.
func unauthorized(err error) *Error { return &Error{Kind: Unauthorized, Err: err} }

func setBearer(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) }
