package upstream

import (
	"context"
	"net/http"
	"time"
)

// Credentials are what a client has shown and what may travel on to an
// upstream. They go with the context of the client's request and of the call it
// made, and nowhere else: a context cannot be stored.
type Credentials struct {
	// Token is the client's access token; "" when it has none.
	Token string
	// Expires is when the token ends; zero: not known.
	Expires time.Time
	// Header is sent along as it is.
	Header http.Header
}

// String keeps the values out of logs.
func (*Credentials) String() string { return "(hidden)" }

// GoString keeps the values out of %#v.
func (*Credentials) GoString() string { return "(hidden)" }

// before tells whether the token ends before that of d.
func (c *Credentials) before(d *Credentials) bool {
	return !c.Expires.IsZero() && (d.Expires.IsZero() || c.Expires.Before(d.Expires))
}

type credentialsKey struct{}

// WithCredentials returns a context for what is done on behalf of a client.
func WithCredentials(ctx context.Context, c *Credentials) context.Context {
	return context.WithValue(ctx, credentialsKey{}, c)
}

// credentialsOf is nil when no client is behind ctx: the gateway acts by itself,
// or goes on with a call whose client it no longer knows.
func credentialsOf(ctx context.Context) *Credentials {
	c, _ := ctx.Value(credentialsKey{}).(*Credentials)
	return c
}
