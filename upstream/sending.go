package upstream

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"sync/atomic"

	"taskgate/internal/h1"
)

// sending is an HTTP request on its way. A 401 means that the request was not acted
// on, so it may go out again with other credentials, once; only for that it is kept.
type sending struct {
	endpoint *endpoint
	sent     atomic.Bool // the upstream may have read some of it
	stream   httpStream  // nil when it could not be sent
	err      error       // why not
	again    *h1.Request // nil when nothing makes other credentials
}

// begin sends it.
func (s *sending) begin(ctx context.Context, r h1.Request) {
	if s.err = s.endpoint.complete(ctx, r.Method, r.Header); s.err != nil {
		return
	}
	if s.endpoint.opts.Auth != nil {
		again := r
		s.again = &again
	}
	s.attempt(ctx, &r)
}

func (s *sending) attempt(ctx context.Context, r *h1.Request) {
	s.sent.Store(false)
	stream, err := s.endpoint.transport.send(ctx, r, &s.sent)
	if s.stream = stream; err != nil {
		s.err = s.failed(err)
	}
}

func (s *sending) failed(err error) *Error {
	if s.sent.Load() {
		return broken(0, "no response: %w", withoutURL(err))
	}
	return &Error{Kind: Unreachable, Err: withoutURL(err)}
}

func (s *sending) wait() {
	if s.stream != nil {
		s.stream.Wait()
	}
}

// response returns once the response's headers are there. Errors are *Error, or wrap
// ctx.Err().
func (s *sending) response(ctx context.Context) (*http.Response, error) {
	resp, err := s.received(ctx)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || s.again == nil {
		return resp, err
	}
	auth, r := s.endpoint.opts.Auth, s.again
	if !auth.Renew(ctx, r.Header) {
		return resp, nil
	}
	resp.Body.Close()
	r.Header = maps.Clone(r.Header) // the other one may be being written
	if err := auth.Authorize(ctx, r.Header); err != nil {
		return nil, err
	}
	s.attempt(ctx, r)
	return s.received(ctx)
}

func (s *sending) received(ctx context.Context) (*http.Response, error) {
	if s.err != nil {
		return nil, s.err
	}
	resp, err := s.stream.Response(ctx)
	if err != nil {
		return nil, s.failed(err)
	}
	return resp, nil
}

// withoutURL takes the URL out of a client error: its query may hold a secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
