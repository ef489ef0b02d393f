package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"taskgate/auth"
)

func compile(t *testing.T, pattern string) *regexp.Regexp {
	t.Helper()
	re, err := auth.CompileName(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return re
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	pair := a.issue(t, template)
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// issue signs a certificate; an authority without one signs its own.
func (a *authority) issue(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) server(t *testing.T, name string) tls.Certificate {
	return a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

func (a *authority) client(t *testing.T, cn, uri string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: cn, Organization: []string{"Acme"}}, DNSNames: []string{cn + ".example.com"},
		EmailAddresses: []string{cn + "@example.com"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if uri != "" {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = []*url.URL{u}
	}
	return a.issue(t, template)
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// files are where a listener finds its certificates.
type files struct{ cert, key, ca string }

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")}
}

func (f files) put(t *testing.T, c tls.Certificate) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))
	write(t, f.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
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
	ca := newAuthority(t, "ca")
	f := newFiles(t)
	f.put(t, ca.server(t, "first"))
	tlsFiles, err := auth.OpenTLS(auth.TLSOptions{CertFile: f.cert, KeyFile: f.key})
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, tlsFiles, auth.NewChain(nil))
	serverName := func() string {
		t.Helper()
		body, state, err := ask(t, address, &tls.Config{RootCAs: ca.pool()})
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
	second := ca.server(t, "second")
	f.put(t, second)
	write(t, f.key, []byte("half written"))
	if _, err := tlsFiles.Reload(); err == nil {
		t.Error("a certificate without its key was taken")
	}
	if got := serverName(); got != "first" {
		t.Errorf("after a bad change: got the certificate %q", got)
	}
	f.put(t, second)
	if changed, err := tlsFiles.Reload(); !changed || err != nil {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if got := serverName(); got != "second" {
		t.Errorf("after the change: got the certificate %q", got)
	}
}

func TestMinimumTLSVersion(t *testing.T) {
	ca := newAuthority(t, "ca")
	f := newFiles(t)
	f.put(t, ca.server(t, "gateway"))
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
			tlsFiles, err := auth.OpenTLS(auth.TLSOptions{CertFile: f.cert, KeyFile: f.key, MinVersion: tt.least})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = ask(t, serve(t, tlsFiles, auth.NewChain(nil)), &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS10, MaxVersion: tt.most})
			if (err == nil) != tt.accepted {
				t.Errorf("got %v, want accepted: %v", err, tt.accepted)
			}
		})
	}
}

func TestMTLS(t *testing.T) {
	ca, clients, strangers := newAuthority(t, "ca"), newAuthority(t, "clients"), newAuthority(t, "strangers")
	f := newFiles(t)
	f.put(t, ca.server(t, "gateway"))
	write(t, f.ca, clients.pem())
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
		{"a SPIFFE id", true, nil, []tls.Certificate{clients.client(t, "ann", "spiffe://mesh/ann")}, "HTTP/2.0 mesh spiffe://mesh/ann"},
		{"no SPIFFE id", true, nil, []tls.Certificate{clients.client(t, "ann", "")}, "Unauthorized: the client certificate has no SPIFFE id\n"},
		{"by common name", true, byName, []tls.Certificate{clients.client(t, "svc-ci", "")}, "HTTP/2.0 services ci"},
		{"by a later rule", true, byName, []tls.Certificate{clients.client(t, "ann", "")}, "HTTP/2.0 people ann"},
		{"no certificate where one is required", true, byName, nil, ""},
		{"no certificate where one is optional", false, byName, nil, anonymous},
		{"of another authority", true, byName, []tls.Certificate{strangers.client(t, "svc-root", "")}, ""},
		{"of another authority where one is optional", false, byName, []tls.Certificate{strangers.client(t, "svc-root", "")}, ""},
		{"a server's certificate", true, byName, []tls.Certificate{clients.server(t, "svc-root")}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tlsFiles, err := auth.OpenTLS(auth.TLSOptions{CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.ca, RequireClient: tt.require})
			if err != nil {
				t.Fatal(err)
			}
			send := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // also what the server has not asked for
				if len(tt.certs) == 0 {
					return &tls.Certificate{}, nil
				}
				return &tt.certs[0], nil
			}
			body, _, err := ask(t, serve(t, tlsFiles, auth.NewChain(nil, auth.NewMTLS(tt.rules))), &tls.Config{RootCAs: ca.pool(), GetClientCertificate: send})
			if body != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", body, err, tt.want)
			}
		})
	}
}

// TestPeersBySPIFFE: a proxy that proves who it is may speak for others.
func TestPeersBySPIFFE(t *testing.T) {
	ca := newAuthority(t, "ca")
	f := newFiles(t)
	f.put(t, ca.server(t, "gateway"))
	write(t, f.ca, ca.pem())
	tlsFiles, err := auth.OpenTLS(auth.TLSOptions{CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.ca, RequireClient: true})
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
		cert := ca.client(t, "x", uri)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{cert}}, DisableKeepAlives: true}}
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
	ca, old, other := newAuthority(t, "ca"), newAuthority(t, "old"), newAuthority(t, "new")
	f := newFiles(t)
	f.put(t, ca.server(t, "gateway"))
	write(t, f.ca, old.pem())
	tlsFiles, err := auth.OpenTLS(auth.TLSOptions{CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.ca, RequireClient: true})
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, tlsFiles, auth.NewChain(nil, auth.NewMTLS(nil)))
	client := &tls.Config{
		RootCAs: ca.pool(), Certificates: []tls.Certificate{old.client(t, "ann", "spiffe://mesh/ann")},
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
	}
	for range 2 {
		if body, _, err := ask(t, address, client); err != nil || body != "HTTP/2.0 mesh spiffe://mesh/ann" {
			t.Fatalf("got %q, %v", body, err)
		}
	}
	write(t, f.ca, other.pem())
	if changed, err := tlsFiles.Reload(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if body, _, err := ask(t, address, client); err == nil {
		t.Errorf("got in as %q", body)
	}
}
