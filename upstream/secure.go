package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"

	"taskgate/internal/h1"
	"taskgate/wire"
)

// secureStream is an httpStream over TLS. The request goes out when the response is asked
// for, and the stream is the body of that.
type secureStream struct {
	transport *http.Transport
	request   h1.Request
	sent      *atomic.Bool

	stop func() bool        // makes the end of the context mean nothing
	end  context.CancelFunc // ends the stream
	body io.ReadCloser
}

// Wait implements httpStream.
func (s *secureStream) Wait() {}

// Response implements httpStream.
func (s *secureStream) Response(ctx context.Context) (*http.Response, error) {
	own, end := context.WithCancel(context.WithoutCancel(ctx))
	s.end = end
	s.stop = context.AfterFunc(ctx, s.giveUp)
	resp, err := s.transport.RoundTrip(s.httpRequest(httptrace.WithClientTrace(own, &httptrace.ClientTrace{
		GetConn:      func(string) { s.sent.Store(false) }, // also when the Transport tries anew, having written nothing
		WroteHeaders: func() { s.sent.Store(true) },
	})))
	if err != nil {
		s.Release()
		end()
		return nil, err
	}
	s.body, resp.Body = resp.Body, s
	return resp, nil
}

// giveUp is for the end of the context.
func (s *secureStream) giveUp() {
	if s.request.Abandon != nil {
		s.request.Abandon()
	}
	s.end()
}

func (s *secureStream) httpRequest(ctx context.Context) *http.Request {
	r := &s.request
	req := new(http.Request).WithContext(ctx)
	req.Method, req.URL, req.Host, req.Header = r.Method, r.URL, r.URL.Host, r.Header
	if len(r.Body) > 0 {
		req.ContentLength = int64(wire.Pieces(r.Body).Len())
		req.GetBody = func() (io.ReadCloser, error) {
			pieces := net.Buffers(slices.Clone(r.Body)) // it uses them up
			return io.NopCloser(&pieces), nil
		}
		req.Body, _ = req.GetBody()
	}
	return req
}

// Release implements httpStream.
func (s *secureStream) Release() { s.stop() }

// Read reads the body of the response.
func (s *secureStream) Read(p []byte) (int, error) { return s.body.Read(p) }

// Close implements io.Closer.
func (s *secureStream) Close() error {
	s.Release()
	s.end()
	return s.body.Close()
}
