package app_test

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"testing"

	"taskgate/audit"
	"taskgate/auth/authtest"
	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// tools of the upstreams here: ask waits for an answer, block until it is cancelled.
func askingTools() []mcptest.Tool {
	return []mcptest.Tool{
		{Name: "ask", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
			answers, err := c.Ask(mcptest.Elicit("name", "Who are you?"))
			if err != nil {
				return nil, err
			}
			return mcptest.Text("hello " + string(answers["name"])), nil
		}},
		{Name: "block", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
			<-c.Cancelled()
			return nil, wire.Errorf(wire.CodeInternal, "cancelled")
		}},
		{Name: "echo", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
			text, _ := wire.String(c.Arguments.Get("text"))
			return mcptest.Text(text), nil
		}},
	}
}

// people of the matrix. Each is known by one key but ann, who has two.
const people = `
identity:
  - apiKeys:
      header: X-Api-Key
      keys:
        - {tenant: acme, subject: ann, sha256: SUM(ann-1)}
        - {tenant: acme, subject: ann, sha256: SUM(ann-2)}
        - {tenant: acme, subject: bob, sha256: SUM(bob)}
        - {tenant: globex, subject: ann, sha256: SUM(globex-ann)}
        - {tenant: acme/ann, subject: x, sha256: SUM(slash)}
`

// withSums replaces SUM(key) by the key's sum.
func withSums(yaml string) string {
	for {
		before, rest, ok := strings.Cut(yaml, "SUM(")
		if !ok {
			return yaml
		}
		key, after, _ := strings.Cut(rest, ")")
		yaml = before + sum(key) + after
	}
}

func isolationGateway(t *testing.T, era string, defaults ...string) (*gateway, *mcptest.Upstream) {
	t.Helper()
	u := mcptest.NewLegacy(askingTools()...)
	if era == "modern" {
		u = mcptest.NewModern(askingTools()...)
		u.RequestState = true
	}
	g := start(t, withSums(people)+"upstreams: [{name: u, path: /mcp, url: \""+u.Start(t)+"\"}]\n",
		strings.Join(defaults, "")+"rules:\n  - match: {tool: block}\n    task: required\n    promoteAfter: 0s\n")
	return g, u
}

// attempts are what others may try with a task id.
var attempts = []struct {
	name string
	try  func(t *testing.T, c *mcptest.Client, id string, o ...mcptest.Option) mcptest.Reply
}{
	{"tasks/get", func(t *testing.T, c *mcptest.Client, id string, o ...mcptest.Option) mcptest.Reply {
		return must(t)(c.Task(t.Context(), id, o...))
	}},
	{"tasks/update", func(t *testing.T, c *mcptest.Client, id string, o ...mcptest.Option) mcptest.Reply {
		responses := wire.Object{}
		for _, key := range []string{"name", "q1", "q-1", "1", "0"} {
			responses = responses.With(key, mcptest.Accept(`{"name":"eve"}`))
		}
		return must(t)(c.Update(t.Context(), id, responses, o...))
	}},
	{"tasks/cancel", func(t *testing.T, c *mcptest.Client, id string, o ...mcptest.Option) mcptest.Reply {
		return must(t)(c.Cancel(t.Context(), id, o...))
	}},
	{"subscriptions/listen", func(t *testing.T, c *mcptest.Client, id string, o ...mcptest.Option) mcptest.Reply {
		return listen(t, c, id, o...)
	}},
}

// listen follows one task. For a stranger the stream ends at once.
func listen(t *testing.T, c *mcptest.Client, id string, o ...mcptest.Option) mcptest.Reply {
	t.Helper()
	params := wire.Object{}.With("notifications", wire.Object{}.With("taskIds", wire.Raw("["+string(wire.Quote(id))+"]")).Bytes())
	return must(t)(c.Call(t.Context(), "subscriptions/listen", params.Bytes(), o...))
}

// TestIsolation: whoever is not the owner cannot tell a task from one that never
// was, by whatever method, and changes nothing.
func TestIsolation(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		g, u := isolationGateway(t, era)
		owner := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-1")
		strangers := map[string]*mcptest.Client{
			"same tenant":                  g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "bob"),
			"same subject, other tenant":   g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "globex-ann"),
			"a tenant that plays a prefix": g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "slash"),
		}
		nobody := map[string]*mcptest.Client{
			"no credential":  g.client(t, "/mcp", mcptest.TasksAndInput),
			"bad credential": g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-3"),
			"names only":     g.client(t, "/mcp", mcptest.TasksAndInput, "X-User", "ann", "X-Tenant", "acme", "X-Forwarded-User", "ann"),
		}
		id := task(t, owner, "ask", `{}`)
		before := must(t)(owner.Task(t.Context(), id, mcptest.WithID(wire.Raw("7")))).Body
		for _, a := range attempts {
			for who, c := range strangers {
				foreign := a.try(t, c, id, mcptest.WithID(wire.Raw("7")))
				unknown := a.try(t, c, rand.Text(), mcptest.WithID(wire.Raw("7")))
				if foreign.Status != unknown.Status || !bytes.Equal(foreign.Body, unknown.Body) {
					t.Errorf("%s, %s by %s: a stranger's task is told from one that never was:\n%d %s\n%d %s", era, a.name, who, foreign.Status, foreign.Body, unknown.Status, unknown.Body)
				}
				if bytes.Contains(foreign.Body, []byte(id)) {
					t.Errorf("%s, %s by %s: %s", era, a.name, who, foreign.Body)
				}
			}
			for who, c := range nobody {
				if r := a.try(t, c, id); r.Status != http.StatusUnauthorized {
					t.Errorf("%s, %s with %s: got %d %s, want 401", era, a.name, who, r.Status, r.Body)
				}
			}
		}
		if after := must(t)(owner.Task(t.Context(), id, mcptest.WithID(wire.Raw("7")))).Body; !bytes.Equal(after, before) {
			t.Errorf("%s: strangers have changed the task:\n%s\n%s", era, before, after)
		}
		for _, ran := range u.Calls("", "") {
			if ran.Cancelled {
				t.Errorf("%s: a stranger has cancelled %s", era, ran.Tool)
			}
		}
	}
}

// TestATenantMayShareItsTasks: share: tenant lets the owner's tenant do with a
// task what the owner may, and nobody else.
func TestATenantMayShareItsTasks(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		g, _ := isolationGateway(t, era, "defaults: {share: tenant}\n")
		owner := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-1")
		mate := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "bob")
		id := task(t, owner, "ask", `{}`)
		answer(t, mate, id)
		wait(t, mate, id, wire.StatusCompleted)
		if r := listen(t, mate, id); !bytes.Contains(r.Body, []byte(id)) {
			t.Errorf("%s: listen: %s", era, r.Body)
		}
		id = task(t, owner, "block", `{}`)
		before := must(t)(owner.Task(t.Context(), id, mcptest.WithID(wire.Raw("7")))).Body
		for _, a := range attempts {
			for _, key := range []string{"globex-ann", "slash"} {
				c := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", key)
				foreign, unknown := a.try(t, c, id, mcptest.WithID(wire.Raw("7"))), a.try(t, c, rand.Text(), mcptest.WithID(wire.Raw("7")))
				if foreign.Status != unknown.Status || !bytes.Equal(foreign.Body, unknown.Body) {
					t.Errorf("%s, %s by %s: %s, for an unknown task %s", era, a.name, key, foreign.Body, unknown.Body)
				}
			}
		}
		if after := must(t)(mate.Task(t.Context(), id, mcptest.WithID(wire.Raw("7")))).Body; !bytes.Equal(after, before) {
			t.Errorf("%s: the mate sees %s, the owner %s", era, after, before)
		}
		must(t)(mate.Cancel(t.Context(), id))
		wait(t, owner, id, wire.StatusCancelled)
	}
}

// TestASharedCallIsNotMadeInTheNameOfWhoAnswers: an upstream that acts for
// clients never gets the mate's token for the owner's call.
func TestASharedCallIsNotMadeInTheNameOfWhoAnswers(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	u := mcptest.NewModern(askingTools()...)
	g := start(t, "publicURL: "+public+"\nidentity: [{jwt: {issuer: \""+issuer.URL+"\", tenantClaim: org}}]\nupstreams: [{name: u, url: \""+u.Start(t)+"\", auth: {mode: forward}}]\n", "defaults: {share: tenant}\n")
	owner := g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer "+token(issuer, "ann", public, ""))
	matesToken := token(issuer, "bob", public, "")
	mate := g.client(t, "/mcp", mcptest.TasksAndInput, "Authorization", "Bearer "+matesToken)
	id := task(t, owner, "ask", `{}`)
	answer(t, mate, id)
	if state := wait(t, owner, id, wire.StatusFailed); !strings.Contains(string(state.Get("error")), `"reason":"upstream_unauthorized"`) {
		t.Errorf("got %s", state.Bytes())
	}
	for _, r := range u.Requests("tools/call") {
		if r.Header.Get("Authorization") == "Bearer "+matesToken {
			t.Error("the upstream got the mate's token")
		}
	}
}

// TestOwnerByAnotherCredential: a task is a principal's and not a credential's.
func TestOwnerByAnotherCredential(t *testing.T) {
	g, _ := isolationGateway(t, "legacy")
	first := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-1")
	second := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-2")

	id := task(t, first, "ask", `{}`)
	state := wait(t, second, id, wire.StatusInputRequired)
	requests, _ := wire.ParseObject(state.Get("inputRequests"))
	answers := wire.Object{}.With(requests[0].Name, mcptest.Accept(`{"name":"ann"}`))
	if r := must(t)(second.Update(t.Context(), id, answers)); r.Status != http.StatusOK {
		t.Fatalf("update: %d %s", r.Status, r.Body)
	}
	wait(t, second, id, wire.StatusCompleted)
	if r := listen(t, second, id); !bytes.Contains(r.Body, []byte(id)) {
		t.Errorf("listen: %s", r.Body)
	}

	id = task(t, first, "block", `{}`)
	if r := must(t)(second.Cancel(t.Context(), id)); r.Status != http.StatusOK {
		t.Fatalf("cancel: %d %s", r.Status, r.Body)
	}
	wait(t, first, id, wire.StatusCancelled)
}

// TestRequestStateIsItsOwners: the state of a held call opens nothing in other
// hands, and still works in its owner's afterwards.
func TestRequestStateIsItsOwners(t *testing.T) {
	g, _ := isolationGateway(t, "legacy")
	owner := g.client(t, "/mcp", mcptest.AllInput, "X-Api-Key", "ann-1")
	asked := must(t)(owner.CallTool(t.Context(), "ask", `{}`))
	if asked.Type() != wire.ResultInputRequired {
		t.Fatalf("got %s", asked.Body)
	}
	requests, _ := asked.Result().Object("inputRequests")
	retry := wire.Object{}.With("name", wire.Quote("ask")).With("arguments", wire.Raw(`{}`)).
		With("requestState", asked.Result().Get("requestState")).
		With("inputResponses", wire.Object{}.With(requests[0].Name, mcptest.Accept(`{"name":"x"}`)).Bytes())
	madeUp := retry.With("requestState", wire.Quote("tg."+rand.Text()+"."+rand.Text()))
	for _, key := range []string{"bob", "globex-ann", "slash"} {
		stranger := g.client(t, "/mcp", mcptest.AllInput, "X-Api-Key", key)
		foreign := must(t)(stranger.Call(t.Context(), "tools/call", retry.Bytes(), mcptest.WithID(wire.Raw("7"))))
		unknown := must(t)(stranger.Call(t.Context(), "tools/call", madeUp.Bytes(), mcptest.WithID(wire.Raw("7"))))
		if foreign.Err() == nil || !bytes.Equal(foreign.Body, unknown.Body) {
			t.Errorf("%s: got %s, for a made-up state %s", key, foreign.Body, unknown.Body)
		}
	}
	if r := must(t)(g.client(t, "/mcp", mcptest.AllInput).Call(t.Context(), "tools/call", retry.Bytes())); r.Status != http.StatusUnauthorized {
		t.Errorf("nobody: got %d %s", r.Status, r.Body)
	}
	second := g.client(t, "/mcp", mcptest.AllInput, "X-Api-Key", "ann-2")
	if r := must(t)(second.Call(t.Context(), "tools/call", retry.Bytes())); !strings.HasPrefix(r.Text(), "hello") {
		t.Errorf("the owner: got %s", r.Body)
	}
}

// TestWhoCancelledThis: the audit log tells, and tells it without the task's id.
func TestWhoCancelledThis(t *testing.T) {
	g, _ := isolationGateway(t, "legacy")
	owner := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-1")
	stranger := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "bob")
	id := task(t, owner, "block", `{"secret":"argument"}`)
	must(t)(stranger.Cancel(t.Context(), id))
	must(t)(owner.Cancel(t.Context(), id))
	wait(t, owner, id, wire.StatusCancelled)
	must(t)(g.client(t, "/mcp", mcptest.TasksAndInput).Cancel(t.Context(), id))
	must(t)(owner.Task(t.Context(), id)) // reads are not written down
	must(t)(stranger.Task(t.Context(), id))

	hash := audit.TaskHash(id)
	want := []string{
		`"tenant":"acme","subject":"ann","identity":"apiKeys","peer":"127.0.0.1","upstream":"u","method":"tools/call","tool":"block","task":"` + hash + `","rule":"*/block","source":"`,
		`"tenant":"acme","subject":"bob","identity":"apiKeys","peer":"127.0.0.1","upstream":"u","method":"tasks/cancel","task":"` + hash + `","outcome":"failed","status":200,"code":-32602}`,
		`"tenant":"acme","subject":"ann","identity":"apiKeys","peer":"127.0.0.1","upstream":"u","method":"tasks/cancel","task":"` + hash + `","outcome":"answered","status":200}`,
		`"event":"task_ended","tenant":"acme","subject":"ann","upstream":"u","tool":"block","task":"` + hash + `","outcome":"cancelled"}`,
		`"peer":"127.0.0.1","upstream":"u","outcome":"denied","status":401,"code":-32600,"reason":"Unauthorized: the request carries no credential"}`,
		`"tenant":"acme","subject":"bob","identity":"apiKeys","peer":"127.0.0.1","upstream":"u","method":"tasks/get","task":"` + hash + `","outcome":"failed","status":200,"code":-32602}`,
	}
	var lines []string
	mcptest.Eventually(t, limit, "six events", func() bool { lines = g.auditLines(t); return len(lines) >= len(want) })
	if len(lines) != len(want) {
		t.Fatalf("got %d events:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	// The end is written down by what runs the task, at a time of its own.
	if end := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "task_ended") }); end >= 0 {
		line := lines[end]
		lines = slices.Insert(slices.Delete(lines, end, end+1), 3, line)
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) {
			t.Errorf("event %d:\ngot  %s\nwant …%s", i, line, want[i])
		}
		if strings.Contains(line, id) || strings.Contains(line, "argument") {
			t.Errorf("event %d tells too much: %s", i, line)
		}
	}
	if !strings.Contains(lines[0], `"outcome":"task","status":200}`) {
		t.Errorf("the call: %s", lines[0])
	}
}

// TestOnlyTheOwnerLearnsOfExpiry: for others an expired task never was.
func TestOnlyTheOwnerLearnsOfExpiry(t *testing.T) {
	u := mcptest.NewLegacy(askingTools()...)
	g := start(t, withSums(people)+"upstreams: [{name: u, path: /mcp, url: \""+u.Start(t)+"\"}]\n", "defaults: {ttl: 300ms}\n")
	owner := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-1")
	id := task(t, owner, "ask", `{}`)
	mcptest.Eventually(t, limit, "the owner is told", func() bool {
		e := must(t)(owner.Task(t.Context(), id)).Err()
		return e != nil && strings.Contains(e.Message, "expired")
	})
	stranger := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "bob")
	for _, a := range attempts {
		foreign := a.try(t, stranger, id, mcptest.WithID(wire.Raw("7")))
		if unknown := a.try(t, stranger, rand.Text(), mcptest.WithID(wire.Raw("7"))); !bytes.Equal(foreign.Body, unknown.Body) {
			t.Errorf("%s: got %s, for an unknown task %s", a.name, foreign.Body, unknown.Body)
		}
	}
}
