package app_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"taskgate/auth/authtest"
	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// TestNothingSecretIsWrittenDown goes through good calls and bad ones, with the
// log at its most talkative, and looks for what must not be in it, in the audit
// log, in metrics and in the views.
func TestNothingSecretIsWrittenDown(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	u := mcptest.NewModern(append(askingTools(), mcptest.Tool{Name: "fail", Run: func(*mcptest.Call) (wire.Raw, *wire.Error) {
		return nil, wire.Errorf(wire.CodeInternal, "r3sult")
	}})...)
	g := start(t, `
adminListen: 127.0.0.1:0
publicURL: `+public+`
identity:
  - jwt: {issuer: "`+issuer.URL+`", tenantClaim: org}
  - apiKeys: {header: X-Api-Key, keys: [{subject: ci, sha256: `+sum("ap1-key")+`}]}
upstreams:
  - {name: u, url: "`+u.Start(t)+`", headers: {X-Static: env:STATIC}, forwardHeaders: [{name: Cookie}], auth: {mode: exchange, tokenURL: "`+issuer.URL+`/token", clientID: gateway, clientSecret: env:CLIENT_SECRET}}
`, "rules: [{match: {tool: block}, task: required, promoteAfter: 0s}, {match: {tool: echo, when: 'args.text.size() > 100'}, timeout: 1m}]\n", "STATIC=st4tic", "CLIENT_SECRET=s3cret")

	bearer := token(issuer, "ann", public, "")
	expired := issuer.Token("ann", public, jwt.MapClaims{"org": "acme", "exp": time.Now().Add(-time.Hour).Unix()})
	c := g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer "+bearer, "Cookie", "c00kie")
	secrets := []string{"s3cret", "st4tic", "c00kie", "ap1-key", "ap1-wrong", "exchanged-", "refresh-", "arg0ment", "r3sult", "answ3r", bearer, expired, strings.Split(bearer, ".")[2]}

	must(t)(c.CallTool(t.Context(), "echo", `{"text":"arg0ment r3sult"}`))
	must(t)(c.CallTool(t.Context(), "fail", `{"text":"arg0ment"}`))
	must(t)(c.CallTool(t.Context(), "no\nsuch\u001b[31m", `{"text":"arg0ment"}`))
	ask := task(t, c, "ask", `{"text":"arg0ment"}`)
	requests, _ := wait(t, c, ask, wire.StatusInputRequired).Object("inputRequests")
	must(t)(c.Update(t.Context(), ask, wire.Object{}.With(requests[0].Name, mcptest.Accept(`{"name":"answ3r"}`))))
	wait(t, c, ask, wire.StatusCompleted)
	block := task(t, c, "block", `{"text":"arg0ment"}`)
	must(t)(c.Cancel(t.Context(), block))
	wait(t, c, block, wire.StatusCancelled)
	secrets = append(secrets, ask, block)

	must(t)(g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer "+expired).CallTool(t.Context(), "echo", `{"text":"arg0ment"}`))
	must(t)(g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ap1-wrong").CallTool(t.Context(), "echo", `{"text":"arg0ment"}`))
	must(t)(g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ap1-key").CallTool(t.Context(), "echo", `{"text":"arg0ment"}`))
	for _, how := range []http.HandlerFunc{mcptest.Drop, mcptest.Respond(500, "text/plain", "r3sult"), mcptest.Respond(401, "text/plain", "r3sult"), mcptest.Respond(200, "application/json", "r3sult")} {
		u.Fail("tools/call", 2, how)
		must(t)(c.CallTool(t.Context(), "echo", `{"text":"arg0ment"}`))
		must(t)(c.CallTool(t.Context(), "echo", `{"text":"arg0ment"}`))
	}
	issuer.SetExchange(mcptest.Respond(400, "application/json", `{"error":"invalid_grant","error_description":"s3cret exchanged-1 r3sult"}`))
	other := token(issuer, "ann", public, "more")
	must(t)(g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer "+other).CallTool(t.Context(), "echo", `{"text":"arg0ment"}`))
	secrets = append(secrets, other)

	written := map[string]string{
		"the log": g.log.String(), "the audit log": strings.Join(g.auditLines(t), "\n"),
		"metrics": page(t, g.AdminURL()+"/metrics"), "the view": page(t, g.AdminURL()+"/"),
	}
	for where, text := range written {
		for _, s := range secrets {
			if i := strings.Index(text, s); i >= 0 {
				t.Errorf("%s holds %q: …%s…", where, s, text[max(0, i-200):min(len(text), i+len(s)+80)])
			}
		}
		if where == "metrics" || where == "the view" {
			continue
		}
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s has a line that is no JSON: %q", where, line)
			}
		}
	}
	if !strings.Contains(written["the audit log"], `"subject":"ann"`) || !strings.Contains(written["metrics"], "taskgate_requests_total") {
		t.Error("nothing was written down at all")
	}
}

// TestCallersMakeNoSeries: whatever callers make up, metrics have no more series
// than before.
func TestCallersMakeNoSeries(t *testing.T) {
	u := mcptest.NewModern(askingTools()...)
	g := start(t, "adminListen: 127.0.0.1:0\n"+withSums(people)+"upstreams: [{name: u, path: /mcp, url: \""+u.Start(t)+"\"}]\n", "rules: []\n")
	c := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-1")
	stranger := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "eve")
	makeUp := func(i int) {
		name := fmt.Sprint("made-up-", i)
		must(t)(c.CallTool(t.Context(), name, `{}`))
		must(t)(c.Call(t.Context(), "x/"+name, wire.Raw(`{}`)))
		must(t)(c.Call(t.Context(), "tasks/"+name, wire.Raw(`{}`)))
		must(t)(c.Task(t.Context(), name))
		must(t)(c.Task(t.Context(), rand.Text()))
		must(t)(stranger.CallTool(t.Context(), name, `{}`))
		must(t)(c.CallTool(t.Context(), "echo", `{}`, mcptest.WithHeader(wire.HeaderMethod, name)))
		other := g.client(t, "/mcp", mcptest.NoCapabilities)
		other.URL += "/" + name
		must(t)(other.CallTool(t.Context(), "echo", `{}`))
	}
	series := func() string {
		var names []string
		for line := range strings.Lines(page(t, g.AdminURL()+"/metrics")) {
			if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "taskgate_") {
				names = append(names, name)
			}
		}
		return strings.Join(names, "\n")
	}
	makeUp(0)
	before := series()
	for i := range 20 {
		makeUp(i + 1)
	}
	if after := series(); after != before || strings.Contains(after, "made-up") {
		t.Errorf("the series are\n%s\nand were\n%s", after, before)
	}
}

func page(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
