package upstream

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"taskgate/wire"
)

// newRequest makes an HTTP request to the endpoint.
func (e *endpoint) newRequest(ctx context.Context, method string, body wire.Pieces, header http.Header) *http.Request {
	req := new(http.Request).WithContext(ctx)
	req.Method, req.URL, req.Host, req.Header = method, e.url, e.url.Host, header
	if len(body) > 0 {
		req.ContentLength = int64(body.Len())
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(reader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	return req
}

func reader(p wire.Pieces) io.Reader {
	buffers := net.Buffers(slices.Clone(p)) // it uses them up
	return &buffers
}

// What every request says of itself, whatever others would have it say.
var (
	ownContentType = []string{"application/json"}
	ownAccept      = []string{"application/json, text/event-stream"}
	ownEncoding    = []string{"identity"}
)

// headerOf is the whole header of a request. Errors are *Error, or wrap ctx.Err().
func (e *endpoint) headerOf(ctx context.Context, method string, more http.Header) (http.Header, error) {
	h := maps.Clone(e.header)
	copyHeader(h, more)
	if c := credentialsOf(ctx); c != nil {
		copyHeader(h, c.Header)
	}
	if method == http.MethodPost {
		h["Content-Type"] = ownContentType
	}
	h["Accept"], h["Accept-Encoding"] = ownAccept, ownEncoding
	hideFromTransport(h)
	if e.opts.Auth != nil {
		return h, e.opts.Auth.Authorize(ctx, h)
	}
	return h, nil
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
