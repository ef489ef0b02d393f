package app_test

import (
	"strings"
	"testing"

	"taskgate/audit"
	"taskgate/internal/mcptest"
	"taskgate/taskroute"
	"taskgate/wire"
)

// schemed are tools that say what they answer with.
func schemed() []mcptest.Tool {
	tools := askingTools()
	for i := range tools {
		tools[i].Definition = wire.Raw(`{"inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["n"]}}`)
	}
	return tools
}

// At an endpoint of several upstreams one set of tools is for the jobs of all.
func TestJobsOfSeveralUpstreams(t *testing.T) {
	old, new := mcptest.NewLegacy(schemed()...), mcptest.NewModern(schemed()...)
	g := start(t, `
adminListen: 127.0.0.1:0
upstreams:
- {name: old, path: /old, url: `+old.Start(t)+`}
- {name: new, path: /new, url: `+new.Start(t)+`}
- {name: all, path: /all, aggregate: [old, new], jobPrefix: my-}
`, "rules: [{name: batch, match: {upstream: new, tool: \"{echo,ask,block}\"}, promoteAfter: 0s, undeclared: jobs}]\n")
	const asksBack = `{"elicitation":{"form":{}}}`
	all, alone := g.client(t, "/all", asksBack), g.client(t, "/new", asksBack)
	list := func(c *mcptest.Client) string {
		return string(must(t)(c.Call(t.Context(), "tools/list", wire.Raw(`{}`))).Body)
	}
	for _, c := range []struct {
		client        *mcptest.Client
		prefix        string
		jobs, schemas int
	}{
		{all, "my-", 3, 3 + 2}, // two of the tools for jobs say what they answer with
		{alone, "", 3, 0 + 2},
		{g.client(t, "/old", asksBack), "", 0, 3},
	} {
		got := list(c.client)
		if jobs := strings.Count(got, `"name":"`+c.prefix+`job_`); jobs != c.jobs {
			t.Errorf("%d tools for jobs, want %d: %s", jobs, c.jobs, got)
		}
		if schemas := strings.Count(got, "outputSchema"); schemas != c.schemas {
			t.Errorf("%d outputSchemas, want %d: %s", schemas, c.schemas, got)
		}
	}
	job := func(c *mcptest.Client, tool, id string) mcptest.Reply {
		t.Helper()
		return must(t)(c.CallTool(t.Context(), tool, `{"jobId":"`+id+`"}`))
	}
	begin := func(tool, arguments string) string {
		t.Helper()
		r := must(t)(all.CallTool(t.Context(), tool, arguments))
		state, _ := r.Result().Object("structuredContent")
		id, _ := wire.String(state.Get("jobId"))
		if id == "" || !strings.Contains(r.Text(), "my-job_result") {
			t.Fatalf("%s: no job: %s", tool, r.Body)
		}
		return id
	}

	echo := begin("new__echo", `{"text":"hi"}`)
	for tool, c := range map[string]*mcptest.Client{"my-job_result": all, "job_result": alone} {
		if got := job(c, tool, echo); got.Text() != "hi" {
			t.Errorf("%s: %s", tool, got.Body)
		}
	}
	if got := must(t)(all.CallTool(t.Context(), "old__echo", `{"text":"quick"}`)); got.Text() != "quick" {
		t.Errorf("a call that policy makes no job: %s", got.Body)
	}

	ask := begin("new__ask", `{}`) // a modern server: its call ends, and is sent again with the answer
	if got := job(all, "my-job_result", ask); got.Type() != wire.ResultInputRequired {
		t.Fatalf("no question: %s", got.Body)
	}
	answered := must(t)(all.Call(t.Context(), "tools/call", wire.Raw(`{"name":"my-job_result","arguments":{"jobId":"`+ask+`"},"inputResponses":{"q1":{"action":"accept","content":{"v":"Ann"}}}}`)))
	if !strings.Contains(answered.Text(), "Ann") {
		t.Errorf("result: %s", answered.Body)
	}

	block := begin("new__block", `{}`)
	if got := job(all, "my-job_cancel", block); !strings.Contains(got.Text(), "cancelled") {
		t.Errorf("cancel: %s", got.Body)
	}
	unknown := taskroute.NewID()
	if got := job(all, "my-job_status", unknown); !strings.Contains(got.Text(), "not found") {
		t.Errorf("unknown: %s", got.Body)
	}
	if got := must(t)(all.CallTool(t.Context(), "job_status", `{"jobId":"`+echo+`"}`)); got.Err() == nil {
		t.Errorf("the name without the prefix: %s", got.Body)
	}
	for what, line := range map[string]string{
		"the call":     `"upstream":"new","method":"tools/call","tool":"block","task":"` + audit.TaskHash(block) + `","rule":"batch"`,
		"the answer":   `"upstream":"all","method":"tasks/update","tool":"my-job_result","task":"` + audit.TaskHash(ask) + `","outcome":"answered"`,
		"the cancel":   `"upstream":"all","method":"tasks/cancel","tool":"my-job_cancel","task":"` + audit.TaskHash(block) + `","outcome":"answered"`,
		"the mistake":  `"upstream":"all","method":"tasks/get","tool":"my-job_status","task":"` + audit.TaskHash(unknown) + `","outcome":"failed","status":200,"code":-32602`,
		"the job made": `"outcome":"task"`,
	} {
		if !strings.Contains(strings.Join(g.auditLines(t), "\n"), line) {
			t.Errorf("the audit log does not tell of %s, as %s:\n%s", what, line, strings.Join(g.auditLines(t), "\n"))
		}
	}
	if log := strings.Join(g.auditLines(t), "\n"); strings.Contains(log, `"method":"tasks/get","tool":"my-job_result"`) {
		t.Error("the audit log tells of who only read")
	}
	if metrics := page(t, g.AdminURL()+"/metrics"); !strings.Contains(metrics, `method="tasks/cancel",status="200",upstream="all"`) {
		t.Error("no metric tells of the cancel")
	}
	for _, u := range []*mcptest.Upstream{old, new} {
		for _, name := range []string{"my-job_result", "job_result", "job_status", "my-job_cancel"} {
			if n := len(u.Calls(name, "")); n > 0 {
				t.Errorf("%d calls of %s have reached an upstream", n, name)
			}
		}
	}
}

// A name that the upstream has given to a tool of its own stays the upstream's, and
// the log says what follows and what to do.
func TestNameThatJobsNeedIsTaken(t *testing.T) {
	u := mcptest.NewLegacy(append(askingTools(), mcptest.Tool{Name: "job_result", Run: func(*mcptest.Call) (wire.Raw, *wire.Error) {
		return mcptest.Text("its own"), nil
	}})...)
	g := start(t, "upstreams: [{name: u, url: \""+u.Start(t)+"\"}]\n", "defaults: {promoteAfter: 0s}\nrules: [{match: {tool: echo}, undeclared: jobs}, {match: {tool: ecoh}}]\n")
	c := g.client(t, "/mcp", mcptest.NoCapabilities)
	for tool, want := range map[string]string{"echo": "hi", "job_result": "its own"} {
		if got := must(t)(c.CallTool(t.Context(), tool, `{"text":"hi"}`)); got.Text() != want {
			t.Errorf("%s: %s", tool, got.Body)
		}
	}
	for _, advice := range []string{
		`policy.yaml:2: error: rules[0].undeclared: jobs need a tool \"job_result\", and u lists one of that name, so no call there becomes a job; set the jobPrefix of upstream \"u\"`,
		`policy.yaml:2: warning: rules[1].match.tool: \"ecoh\" matches no tool of u; did you mean echo?`,
	} {
		mcptest.Eventually(t, limit, "the log says "+advice, func() bool { return strings.Contains(g.log.String(), advice) })
	}
}
