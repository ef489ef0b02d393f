package app_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"taskgate/auth/authtest"
	"taskgate/internal/mcptest"
)

// TestMTLS: who has no certificate does not even get a connection, and a
// certificate's name is the task's owner.
func TestMTLS(t *testing.T) {
	ca := authtest.NewAuthority(t, "ca")
	files := authtest.NewFiles(t)
	files.Put(ca.Server("gateway"))
	write(t, files.CA, string(ca.PEM()))
	u := mcptest.NewModern(askingTools()...)
	g := start(t, `
tls: {certFile: "`+files.Cert+`", keyFile: "`+files.Key+`", clientCAFile: "`+files.CA+`"}
identity: [{mtls: {names: [{field: cn, match: "svc-(.+)", tenant: services, subject: $1}]}}]
upstreams: [{name: u, url: "`+u.Start(t)+`"}]
`, "rules: []\n")
	as := func(certs ...tls.Certificate) *mcptest.Client {
		c := g.client(t, "/mcp", mcptest.TasksAndInput)
		c.HTTP = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), Certificates: certs}, ForceAttemptHTTP2: true}}
		return c
	}
	if url := g.Endpoints()[0]; !strings.HasPrefix(url, "https://") {
		t.Fatalf("the endpoint is %s", url)
	}
	ann, bob, eve := as(ca.Client("svc-ann", "")), as(ca.Client("svc-bob", "")), as(ca.Client("eve", ""))
	id := task(t, ann, "ask", `{}`)
	if r := must(t)(ann.Task(t.Context(), id)); r.TaskID() != id {
		t.Errorf("the owner gets %d %s", r.Status, r.Body)
	}
	if r := must(t)(bob.Task(t.Context(), id)); r.Err() == nil || !strings.Contains(r.Err().Message, "not found") {
		t.Errorf("somebody else gets %d %s", r.Status, r.Body)
	}
	if r := must(t)(eve.Task(t.Context(), id)); r.Status != http.StatusUnauthorized {
		t.Errorf("a name that no rule knows gets %d %s", r.Status, r.Body)
	}
	if _, err := as().Task(t.Context(), id); err == nil {
		t.Error("nobody got a connection")
	}
	mcptest.Eventually(t, limit, "an audit line", func() bool {
		return strings.Contains(strings.Join(g.auditLines(t), "\n"), `"tenant":"services","subject":"ann","identity":"mtls"`)
	})
}

// TestCertificatesTowardUpstreams: the upstream is known by its own authority and
// wants to know the gateway, whose certificate is replaced while it runs.
func TestCertificatesTowardUpstreams(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		ca := authtest.NewAuthority(t, "ca")
		files := authtest.NewFiles(t)
		files.Put(ca.Client("gateway-1", ""))
		write(t, files.CA, string(ca.PEM()))
		u := mcptest.NewLegacy(askingTools()...)
		if era == "modern" {
			u = mcptest.NewModern(askingTools()...)
		}
		var shown atomic.Value // the name in the certificate of the last request
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			shown.Store(r.TLS.PeerCertificates[0].Subject.CommonName)
			u.ServeHTTP(w, r)
		}))
		s.EnableHTTP2 = true
		s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Server("u")}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert}
		s.StartTLS()
		t.Cleanup(s.Close)
		echo := func(g *gateway) string {
			r := must(t)(g.client(t, "/mcp", mcptest.TasksAndInput).CallTool(t.Context(), "echo", `{"text":"hi"}`))
			return r.Text()
		}
		g := start(t, `upstreams: [{name: u, url: "`+s.URL+`", tls: {caFile: "`+files.CA+`", certFile: "`+files.Cert+`", keyFile: "`+files.Key+`"}}]`+"\n", "rules: []\n")
		if got := echo(g); got != "hi" || shown.Load() != "gateway-1" {
			t.Errorf("%s: got %q, shown %v", era, got, shown.Load())
		}
		files.Put(ca.Client("gateway-2", ""))
		g.Reload()
		mcptest.Eventually(t, limit, "the new certificate is shown", func() bool {
			s.CloseClientConnections() // each keeps the certificate it began with, and one may have been on its way
			return echo(g) == "hi" && shown.Load() == "gateway-2"
		})

		for what, tls := range map[string]string{"no certificate": `caFile: "` + files.CA + `"`, "an authority it does not know": `certFile: "` + files.Cert + `", keyFile: "` + files.Key + `"`} {
			g := start(t, `upstreams: [{name: u, url: "`+s.URL+`", tls: {`+tls+`}}]`+"\n", "rules: []\n")
			if got := echo(g); got == "hi" {
				t.Errorf("%s, %s: it was served", era, what)
			}
		}
	}
}

// TestWithoutIdentityTheStartSaysSo, and names the one principal.
func TestWithoutIdentityTheStartSaysSo(t *testing.T) {
	u := mcptest.NewModern(askingTools()...)
	g := start(t, "upstreams: [{name: u, url: \""+u.Start(t)+"\"}]\n", "rules: []\n")
	if log := g.log.String(); !strings.Contains(log, `"no identity is configured`) || !strings.Contains(log, `"tenant":"default","subject":"anonymous"`) {
		t.Errorf("log: %s", log)
	}
	c := g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer whatever")
	if r := must(t)(c.CallTool(t.Context(), "echo", `{"text":"hi"}`)); r.Text() != "hi" {
		t.Errorf("got %d %s", r.Status, r.Body)
	}
	mcptest.Eventually(t, limit, "an audit line", func() bool {
		return strings.Contains(strings.Join(g.auditLines(t), "\n"), `"tenant":"default","subject":"anonymous","identity":"none"`)
	})
}
