package app_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"taskgate/auth/authtest"
	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// claims are headers by which a client may try to be somebody else behind the
// gateway, or bring its own credentials there.
func claims() []string {
	return []string{
		"Cookie", "session=c00kie", "X-Api-Key", "stolen-key", "Proxy-Authorization", "Basic eDp5", "X-User", "root", "X-Tenant", "globex",
		"X-Forwarded-For", "10.0.0.1", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "evil.example", "Forwarded", "for=10.0.0.1", "X-Real-Ip", "10.0.0.1",
		"X-Forwarded-Client-Cert", "URI=spiffe://mesh/root", "X-Forwarded-User", "root", "Via", "1.1 evil", "Te", "trailers", "X-Http-Method-Override", "DELETE",
		"X-Team", "blue", "X-Trace", "t-1", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Origin", "http://localhost", "Referer", "http://localhost/",
	}
}

// allowed are the headers that an upstream may get; their values are the
// gateway's own or of the protocol.
func allowed() []string {
	return []string{
		"Accept", "Accept-Encoding", "Content-Type", "Content-Length", "User-Agent",
		wire.HeaderVersion, wire.HeaderMethod, wire.HeaderName, wire.HeaderSession,
	}
}

// TestNothingOfTheClientTravelsUnlisted holds every request that any upstream
// got against what is configured for it.
func TestNothingOfTheClientTravelsUnlisted(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	bearer := token(issuer, "ann", public, "")
	tests := []struct {
		name   string
		config string
		want   map[string]string // beyond allowed
	}{
		{"none", "", nil},
		{"headers of the gateway", "headers: {Authorization: env:UPSTREAM_TOKEN}", map[string]string{"Authorization": "gateway-token"}},
		{"static", "auth: {mode: static, token: env:UPSTREAM_TOKEN}", map[string]string{"Authorization": "Bearer gateway-token"}},
		{"forward", "auth: {mode: forward}", map[string]string{"Authorization": "Bearer " + bearer}},
		{"exchange", `auth: {mode: exchange, tokenURL: "` + issuer.URL + `/token", clientID: gateway, clientSecret: env:CLIENT_SECRET}`, map[string]string{"Authorization": "Bearer exchanged-*"}},
		{
			"listed headers", "forwardHeaders: [{name: X-Team, as: X-Squad, keep: true}, {name: cookie}]",
			map[string]string{"X-Squad": "blue", "Cookie": "session=c00kie"},
		},
	}
	for _, tt := range tests {
		for _, era := range []string{"legacy", "modern"} {
			t.Run(era+" "+tt.name, func(t *testing.T) {
				u := mcptest.NewLegacy(askingTools()...)
				if era == "modern" {
					u = mcptest.NewModern(askingTools()...)
				}
				g := start(t, `
publicURL: `+public+`
identity:
  - jwt: {issuer: "`+issuer.URL+`", tenantClaim: org}
  - trustedHeaders: {peers: [10.9.9.9], subjectHeader: X-User, tenantHeader: X-Tenant}
  - xfcc: {peers: [10.9.9.9]}
policyHeaders: [X-Team]
upstreams:
  - name: u
    url: "`+u.Start(t)+`"
    `+tt.config+"\n", "rules:\n  - match: {tool: block}\n    promoteAfter: 0s\n    task: required\n", "UPSTREAM_TOKEN=gateway-token", "CLIENT_SECRET=s3cret")
				c := g.client(t, "/mcp", mcptest.TasksAndInput, append(claims(), "Authorization", "Bearer "+bearer)...)
				exerciseEverything(t, c, u)
				checkLedger(t, u, tt.want, bearer)
			})
		}
	}
}

// exerciseEverything makes every kind of request that reaches an upstream: a
// call, a question and its answer, a cancellation, a list, discovery.
func exerciseEverything(t *testing.T, c *mcptest.Client, u *mcptest.Upstream) {
	t.Helper()
	must(t)(c.Call(t.Context(), "server/discover", wire.Raw(`{}`)))
	must(t)(c.Call(t.Context(), "tools/list", wire.Raw(`{}`)))
	if r := must(t)(c.CallTool(t.Context(), "echo", `{"text":"hi"}`)); r.Text() != "hi" {
		t.Fatalf("echo: %d %s", r.Status, r.Body)
	}
	id := task(t, c, "ask", `{}`)
	answer(t, c, id)
	wait(t, c, id, wire.StatusCompleted)
	id = task(t, c, "block", `{}`)
	mcptest.Eventually(t, limit, "the call is there", func() bool { return len(u.Calls("block", "")) > 0 })
	must(t)(c.Cancel(t.Context(), id))
	wait(t, c, id, wire.StatusCancelled)
}

// answer answers the one question of a task.
func answer(t *testing.T, c *mcptest.Client, id string) {
	t.Helper()
	requests, _ := wait(t, c, id, wire.StatusInputRequired).Object("inputRequests")
	if len(requests) != 1 {
		t.Fatalf("questions: %s", requests.Bytes())
	}
	r := must(t)(c.Update(t.Context(), id, wire.Object{}.With(requests[0].Name, mcptest.Accept(`{"name":"ann"}`))))
	if r.Status != http.StatusOK {
		t.Fatalf("update: %d %s", r.Status, r.Body)
	}
}

func checkLedger(t *testing.T, u *mcptest.Upstream, want map[string]string, bearer string) {
	t.Helper()
	requests := u.Requests("")
	if len(u.Requests("tools/call")) < 3 {
		t.Fatalf("the upstream got %d calls", len(u.Requests("tools/call")))
	}
	for _, r := range requests {
		for name, values := range r.Header {
			text, listed := want[name]
			if prefix, ok := strings.CutSuffix(text, "*"); ok && listed && strings.HasPrefix(values[0], prefix) {
				text = values[0]
			}
			switch {
			case listed && (len(values) != 1 || values[0] != text):
				t.Errorf("%s: %s is %q, want %q", r.Message.Method, name, values, text)
			case !listed && !slices.Contains(allowed(), name):
				t.Errorf("%s %s: the upstream got %s: %q", r.Method, r.Message.Method, name, values)
			}
		}
		if want["Authorization"] != "Bearer "+bearer && strings.Contains(fmt.Sprint(r.Header, string(r.Body)), bearer) {
			t.Errorf("%s: the upstream got the client's token", r.Message.Method)
		}
	}
	for name := range want { // on all that is done for the client
		for _, r := range u.Requests("tools/call") {
			if r.Header.Get(name) == "" {
				t.Errorf("tools/call came without %s", name)
			}
		}
	}
}

// TestParkedCallGoesOnWithTheAnswerersToken: the token of the first request is
// not kept; the one that comes with the answer is the same person's.
func TestParkedCallGoesOnWithTheAnswerersToken(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	u := mcptest.NewModern(askingTools()...)
	g := start(t, "publicURL: "+public+"\nidentity: [{jwt: {issuer: \""+issuer.URL+"\", tenantClaim: org}}]\nupstreams: [{name: u, url: \""+u.Start(t)+"\", auth: {mode: forward, shortToken: allow}}]\n", "rules: []\n")
	first, second := token(issuer, "ann", public, "one"), token(issuer, "ann", public, "two")
	id := task(t, g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer "+first), "ask", `{}`)
	later := g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer "+second)
	answer(t, later, id)
	wait(t, later, id, wire.StatusCompleted)
	calls := u.Requests("tools/call")
	if len(calls) != 2 || calls[0].Header.Get("Authorization") != "Bearer "+first || calls[1].Header.Get("Authorization") != "Bearer "+second {
		t.Errorf("got %d calls", len(calls))
	}
}

// TestTokenThatEndsBeforeItsCall: it is known at the start, and said honestly
// when it happens.
func TestTokenThatEndsBeforeItsCall(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	const policy = "defaults: {timeout: 10m, ttl: 1h}\nrules:\n  - match: {tool: block}\n    timeout: 5s\n    promoteAfter: 1s\n"
	gatewayWith := func(short string) (*gateway, *mcptest.Upstream) {
		u := mcptest.NewModern(askingTools()...)
		return start(t, "publicURL: "+public+"\nidentity: [{jwt: {issuer: \""+issuer.URL+"\", tenantClaim: org}}]\nupstreams: [{name: u, url: \""+u.Start(t)+"\", auth: {mode: forward, shortToken: "+short+"}}]\n", policy), u
	}
	minute := issuer.Token("ann", public, jwt.MapClaims{"org": "acme", "exp": time.Now().Add(time.Minute).Unix()})
	hour := issuer.Token("ann", public, jwt.MapClaims{"org": "acme"})

	g, u := gatewayWith("refuse")
	c := g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer "+minute)
	r := must(t)(c.CallTool(t.Context(), "echo", `{"text":"hi"}`))
	if challenge := r.Header.Get("WWW-Authenticate"); r.Status != http.StatusUnauthorized || !strings.Contains(challenge, `error="invalid_token"`) || !strings.Contains(challenge, "before the call has to") {
		t.Errorf("refuse: got %d %s", r.Status, challenge)
	}
	if len(u.Calls("", "")) > 0 {
		t.Error("refuse: the upstream ran the call")
	}
	c.Header.Set("Authorization", "Bearer "+hour)
	if r := must(t)(c.CallTool(t.Context(), "echo", `{"text":"hi"}`)); r.Text() != "hi" {
		t.Errorf("a token that is long enough: %d %s", r.Status, r.Body)
	}

	g, _ = gatewayWith("warn")
	c = g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer "+minute)
	if r := must(t)(c.CallTool(t.Context(), "echo", `{"text":"hi"}`)); r.Text() != "hi" || !strings.Contains(g.log.String(), "a call may outlive the token") {
		t.Errorf("warn: got %d %s; log %s", r.Status, r.Body, g.log)
	}
}

// TestRefusedByTheUpstreamInTheBackground: the task fails and says why.
func TestRefusedByTheUpstreamInTheBackground(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	u := mcptest.NewModern(askingTools()...)
	g := start(t, "publicURL: "+public+"\nidentity: [{jwt: {issuer: \""+issuer.URL+"\", tenantClaim: org}}]\nupstreams: [{name: u, url: \""+u.Start(t)+"\", auth: {mode: forward}}]\n",
		"rules: [{match: {tool: echo}, task: required, promoteAfter: 0s}]\n")
	u.Fail("tools/call", 1, mcptest.Respond(http.StatusUnauthorized, "text/plain", "token expired"))
	c := g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer "+token(issuer, "ann", public, ""))
	state := wait(t, c, task(t, c, "echo", `{}`), wire.StatusFailed)
	if failure := string(state.Get("error")); !strings.Contains(failure, `"reason":"upstream_unauthorized"`) || !strings.Contains(failure, `"upstreamStatus":401`) {
		t.Errorf("got %s", failure)
	}
}

// TestStaticTokenFollowsItsFile, and API keys theirs.
func TestFilesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	tokenFile, keysFile := filepath.Join(dir, "token"), filepath.Join(dir, "keys.yaml")
	write(t, tokenFile, "first\n")
	write(t, keysFile, "keys: [{subject: ann, sha256: "+sum("k-1")+"}]\n")
	u := mcptest.NewModern(askingTools()...)
	g := start(t, "identity: [{apiKeys: {file: "+keysFile+"}}]\nupstreams: [{name: u, url: \""+u.Start(t)+"\", auth: {mode: static, token: \"file:"+tokenFile+"\"}}]\n", "rules: []\n")
	status := func(key string) int {
		t.Helper()
		c := g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer "+key)
		return must(t)(c.CallTool(t.Context(), "echo", `{"text":"hi"}`)).Status
	}
	if got := status("k-1"); got != http.StatusOK {
		t.Fatalf("got %d", got)
	}
	write(t, tokenFile, "second\n")
	write(t, keysFile, "keys: [{subject: ann, sha256: "+sum("k-2")+"}]\n")
	g.Reload()
	if old, now := status("k-1"), status("k-2"); old != http.StatusUnauthorized || now != http.StatusOK {
		t.Errorf("after the change: the old key gets %d, the new one %d", old, now)
	}
	write(t, keysFile, "keys: [{subject: ann, sha256: short}]\n")
	g.Reload()
	if got := status("k-2"); got != http.StatusOK || !strings.Contains(g.log.String(), "a changed file is not used") {
		t.Errorf("after a bad change: got %d", got)
	}
	calls := u.Requests("tools/call")
	if first, last := calls[0].Header.Get("Authorization"), calls[len(calls)-1].Header.Get("Authorization"); first != "Bearer first" || last != "Bearer second" {
		t.Errorf("the upstream got %q, then %q", first, last)
	}
}
