package auth_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	"taskgate/auth"
	"taskgate/auth/authtest"
)

func compile(t *testing.T, pattern string) *regexp.Regexp {
	t.Helper()
	re, err := auth.CompileName(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return re
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve answers with the subject that the chain finds, over TLS.
func serve(t *testing.T, f *auth.ListenerFiles, chain *auth.Chain) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		TLSConfig: auth.ServerTLS(f), ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			id, err := chain.Identify(req, reports())
			if err != nil {
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			io.WriteString(w, req.Proto+" "+id.Tenant+" "+id.Subject)
		}),
	}
	done := make(chan error, 1)
	go func() { done <- s.ServeTLS(l, "", "") }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return "https://" + l.Addr().String()
}

// ask makes a request on a connection of its own.
func ask(t *testing.T, address string, c *tls.Config) (string, *tls.ConnectionState, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), resp.TLS, err
}

func TestCertificateReload(t *testing.T) {
	ca := authtest.NewAuthority(t, "ca")
	f := authtest.NewFiles(t)
	f.Put(ca.Server("first"))
	tlsFiles, err := auth.OpenTLS(auth.TLSOptions{CertFile: f.Cert, KeyFile: f.Key})
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, tlsFiles, auth.NewChain(nil))
	serverName := func() string {
		t.Helper()
		body, state, err := ask(t, address, &tls.Config{RootCAs: ca.Pool()})
		if err != nil {
			t.Fatal(err)
		}
		if body != "HTTP/2.0 default anonymous" {
			t.Errorf("got %q", body)
		}
		return state.PeerCertificates[0].Subject.CommonName
	}
	if got := serverName(); got != "first" {
		t.Errorf("got the certificate %q", got)
	}
	second := ca.Server("second")
	f.Put(second)
	write(t, f.Key, []byte("half written"))
	if _, err := tlsFiles.Reload(); err == nil {
		t.Error("a certificate without its key was taken")
	}
	if got := serverName(); got != "first" {
		t.Errorf("after a bad change: got the certificate %q", got)
	}
	f.Put(second)
	if changed, err := tlsFiles.Reload(); !changed || err != nil {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if got := serverName(); got != "second" {
		t.Errorf("after the change: got the certificate %q", got)
	}
}

func TestMinimumTLSVersion(t *testing.T) {
	ca := authtest.NewAuthority(t, "ca")
	f := authtest.NewFiles(t)
	f.Put(ca.Server("gateway"))
	tests := []struct {
		name     string
		least    uint16
		most     uint16 // of the client
		accepted bool
	}{
		{"1.1 never", 0, tls.VersionTLS11, false},
		{"1.1 not even if configured", tls.VersionTLS11, tls.VersionTLS11, false},
		{"1.2 by default", 0, tls.VersionTLS12, true},
		{"1.2 not with 1.3 configured", auth.TLSVersion("1.3"), tls.VersionTLS12, false},
		{"1.3 with 1.3 configured", auth.TLSVersion("1.3"), tls.VersionTLS13, true},
		{"1.3 with 1.2 configured", auth.TLSVersion("1.2"), tls.VersionTLS13, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tlsFiles, err := auth.OpenTLS(auth.TLSOptions{CertFile: f.Cert, KeyFile: f.Key, MinVersion: tt.least})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = ask(t, serve(t, tlsFiles, auth.NewChain(nil)), &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: tt.most})
			if (err == nil) != tt.accepted {
				t.Errorf("got %v, want accepted: %v", err, tt.accepted)
			}
		})
	}
}

func TestMTLS(t *testing.T) {
	ca, clients, strangers := authtest.NewAuthority(t, "ca"), authtest.NewAuthority(t, "clients"), authtest.NewAuthority(t, "strangers")
	f := authtest.NewFiles(t)
	f.Put(ca.Server("gateway"))
	write(t, f.CA, clients.PEM())
	byName := []auth.NameRule{
		{Field: auth.FieldCN, Match: compile(t, `svc-(.+)`), Tenant: "services", Subject: "$1"},
		{Field: auth.FieldEmail, Match: compile(t, `(.+)@example\.com`), Tenant: "people", Subject: "$1"},
	}
	const anonymous = "Unauthorized: the request carries no credential\n"
	tests := []struct {
		name    string
		require bool
		rules   []auth.NameRule
		certs   []tls.Certificate
		want    string // "": no connection
	}{
		{"a SPIFFE id", true, nil, []tls.Certificate{clients.Client("ann", "spiffe://mesh/ann")}, "HTTP/2.0 mesh spiffe://mesh/ann"},
		{"no SPIFFE id", true, nil, []tls.Certificate{clients.Client("ann", "")}, "Unauthorized: the client certificate has no SPIFFE id\n"},
		{"by common name", true, byName, []tls.Certificate{clients.Client("svc-ci", "")}, "HTTP/2.0 services ci"},
		{"by a later rule", true, byName, []tls.Certificate{clients.Client("ann", "")}, "HTTP/2.0 people ann"},
		{"no certificate where one is required", true, byName, nil, ""},
		{"no certificate where one is optional", false, byName, nil, anonymous},
		{"of another authority", true, byName, []tls.Certificate{strangers.Client("svc-root", "")}, ""},
		{"of another authority where one is optional", false, byName, []tls.Certificate{strangers.Client("svc-root", "")}, ""},
		{"a server's certificate", true, byName, []tls.Certificate{clients.Server("svc-root")}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tlsFiles, err := auth.OpenTLS(auth.TLSOptions{CertFile: f.Cert, KeyFile: f.Key, ClientCAFile: f.CA, RequireClient: tt.require})
			if err != nil {
				t.Fatal(err)
			}
			send := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // also what the server has not asked for
				if len(tt.certs) == 0 {
					return &tls.Certificate{}, nil
				}
				return &tt.certs[0], nil
			}
			body, _, err := ask(t, serve(t, tlsFiles, auth.NewChain(nil, auth.NewMTLS(tt.rules))), &tls.Config{RootCAs: ca.Pool(), GetClientCertificate: send})
			if body != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", body, err, tt.want)
			}
		})
	}
}

// TestPeersBySPIFFE: a proxy that proves who it is may speak for others.
func TestPeersBySPIFFE(t *testing.T) {
	ca := authtest.NewAuthority(t, "ca")
	f := authtest.NewFiles(t)
	f.Put(ca.Server("gateway"))
	write(t, f.CA, ca.PEM())
	tlsFiles, err := auth.OpenTLS(auth.TLSOptions{CertFile: f.Cert, KeyFile: f.Key, ClientCAFile: f.CA, RequireClient: true})
	if err != nil {
		t.Fatal(err)
	}
	ingress := peers(t, "spiffe://mesh/ingress")
	chain := auth.NewChain(nil, auth.NewTrustedHeaders(auth.TrustedHeadersOptions{Peers: ingress, SubjectHeader: "X-User", Tenant: "acme"}), auth.NewMTLS(nil))
	address := serve(t, tlsFiles, chain)
	for uri, want := range map[string]string{
		"spiffe://mesh/ingress":  "acme ann",
		"spiffe://mesh/ingress2": "mesh spiffe://mesh/ingress2",
	} {
		cert := ca.Client("x", uri)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{cert}}, DisableKeepAlives: true}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-User", "ann")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := string(body); got != "HTTP/1.1 "+want {
			t.Errorf("%s: got %q, want %q", uri, got, want)
		}
	}
}

// TestRemovedAuthority: whose authority is gone does not get in again, not even
// by resuming an old session.
func TestRemovedAuthority(t *testing.T) {
	ca, old, other := authtest.NewAuthority(t, "ca"), authtest.NewAuthority(t, "old"), authtest.NewAuthority(t, "new")
	f := authtest.NewFiles(t)
	f.Put(ca.Server("gateway"))
	write(t, f.CA, old.PEM())
	tlsFiles, err := auth.OpenTLS(auth.TLSOptions{CertFile: f.Cert, KeyFile: f.Key, ClientCAFile: f.CA, RequireClient: true})
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, tlsFiles, auth.NewChain(nil, auth.NewMTLS(nil)))
	client := &tls.Config{
		RootCAs: ca.Pool(), Certificates: []tls.Certificate{old.Client("ann", "spiffe://mesh/ann")},
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
	}
	for range 2 {
		if body, _, err := ask(t, address, client); err != nil || body != "HTTP/2.0 mesh spiffe://mesh/ann" {
			t.Fatalf("got %q, %v", body, err)
		}
	}
	write(t, f.CA, other.PEM())
	if changed, err := tlsFiles.Reload(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if body, _, err := ask(t, address, client); err == nil {
		t.Errorf("got in as %q", body)
	}
}
