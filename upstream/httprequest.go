package upstream

import (
	"context"
	"net/http"
	"strings"
)

// What every request says of itself, whatever others would have it say.
var (
	ownContentType = []string{"application/json"}
	ownAccept      = []string{"application/json, text/event-stream"}
	ownEncoding    = []string{"identity"}
)

// complete adds to the header of a request what every request has. Errors are
// *Error, or wrap ctx.Err().
func (e *endpoint) complete(ctx context.Context, method string, h http.Header) error {
	for name, values := range e.header {
		if _, own := h[name]; !own {
			h[name] = values
		}
	}
	if c := credentialsOf(ctx); c != nil {
		copyHeader(h, c.Header)
	}
	if method == http.MethodPost {
		h["Content-Type"] = ownContentType
	}
	h["Accept"], h["Accept-Encoding"] = ownAccept, ownEncoding
	hideFromTransport(h)
	if e.opts.Auth != nil {
		return e.opts.Auth.Authorize(ctx, h)
	}
	return nil
}

// ownHeader is a copy with canonical names, and room for more.
func ownHeader(h http.Header) http.Header {
	own := make(http.Header, len(h)+4)
	copyHeader(own, h)
	return own
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		to[http.CanonicalHeaderKey(name)] = values
	}
}

// hideFromTransport respells the headers that make http.Transport send a POST
// again after it may have been read (contract 7): it looks for these spellings
// only, while a server does not mind the case.
func hideFromTransport(h http.Header) {
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = v
		}
	}
}
