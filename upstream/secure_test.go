package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// overTLS does f with a server of HTTP/1.1, and with one of HTTP/2.
func overTLS(t *testing.T, respond func(http.ResponseWriter, received) bool, f func(t *testing.T, s *scripted, o Options)) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{respond: respond, session: "s-1"}
			s.Server = httptest.NewUnstartedServer(s)
			s.EnableHTTP2 = http2
			s.StartTLS()
			t.Cleanup(s.Close)
			f(t, s, Options{URL: s.URL, TLS: func() *tls.Config { return s.Client().Transport.(*http.Transport).TLSClientConfig }})
		})
	}
}

// The server is told first, and then the stream is closed.
func TestCancelOverTLS(t *testing.T) {
	started, closed := make(chan struct{}), make(chan struct{})
	overTLS(t, answering(func(w http.ResponseWriter, r received) {
		stream(w, ": hello\n\n")
		started <- struct{}{}
		waitForCancel(r)
		closed <- struct{}{}
	}), func(t *testing.T, s *scripted, o Options) {
		o.Era = Legacy
		h := connect(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := h.Call(ctx, toolCall(5, "x", `{}`), &recorder{})
			ended <- err
		}()
		<-started
		cancel()
		<-closed
		check(t, "told", len(s.all(method("notifications/cancelled"))), 1)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("error: %v", err)
		}
	})
}

// The stream ends after the call, and after its context.
func TestStreamThatEndsLateOverTLS(t *testing.T) {
	over := make(chan struct{})
	overTLS(t, answering(func(w http.ResponseWriter, r received) {
		stream(w, event(`{'jsonrpc':'2.0','id':%s,'result':{}}`, r.ID))
		<-over
	}), func(t *testing.T, s *scripted, o Options) {
		connections := map[string]bool{}
		s.Config.Handler = remember(connections, s)
		o.Era = Modern
		h := connect(t, o)
		for id := range uint64(3) {
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := h.Call(ctx, toolCall(id+1, "x", `{}`), &recorder{}); err != nil {
				t.Fatal(err)
			}
			cancel()
			over <- struct{}{}
			h.running.Wait() // the stream is drained
		}
		check(t, "connections", len(connections), 1)
	})
}
