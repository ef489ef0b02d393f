package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// resourceful is a server of either era with a prompt and a resource of its own.
func resourceful(u *mcptest.Upstream, name string) *mcptest.Upstream {
	u.Capabilities = wire.Raw(`{"tools":{"listChanged":true},"prompts":{},"resources":{}}`)
	answers := map[string]string{
		"prompts/list":             `{"prompts":[{"name":"hello"}]}`,
		"resources/list":           `{"resources":[{"uri":"` + name + `://one","name":"one"}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"` + name + `://by/{id}","name":"by"}]}`,
	}
	for method, result := range answers {
		u.Handle(method, func(wire.Object) (wire.Raw, *wire.Error) { return wire.Raw(result), nil })
	}
	u.Handle("prompts/get", func(p wire.Object) (wire.Raw, *wire.Error) {
		return wire.Raw(`{"description":"` + name + ` got ` + strings.Trim(string(p.Get("name")), `"`) + `","messages":[]}`), nil
	})
	u.Handle("resources/read", func(p wire.Object) (wire.Raw, *wire.Error) {
		return wire.Raw(`{"contents":[{"uri":` + string(p.Get("uri")) + `,"text":"of ` + name + `"}]}`), nil
	})
	return u
}

// joint is a gateway before two servers, one of each era, together and alone, and
// before a third that says nothing.
func joint(t *testing.T, policy string) (g *gateway, old, new *mcptest.Upstream) {
	t.Helper()
	over := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(func() {
		close(over)
		silent.Close()
	})
	old, new = resourceful(mcptest.NewLegacy(askingTools()...), "old"), resourceful(mcptest.NewModern(askingTools()...), "new")
	yaml := fmt.Sprintf("adminListen: 127.0.0.1:0\nupstreams:\n- {name: old, path: /old, url: %s}\n- {name: new, path: /new, url: %s}\n- {name: silent, path: /silent, url: %s}\n- {name: all, path: /all, aggregate: [old, new, silent]}\n",
		old.Start(t), new.Start(t), silent.URL)
	return start(t, yaml, policy, "TASKGATE_TIMEOUTS_INFO_WAIT=1s"), old, new
}

const jointCapabilities = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

func TestSeveralUpstreamsUnderOnePath(t *testing.T) {
	g, _, _ := joint(t, "defaults: {}\n")
	c := g.client(t, "/all", jointCapabilities)
	get := func(method, params string) string {
		t.Helper()
		return string(must(t)(c.Call(t.Context(), method, wire.Raw(params))).Body)
	}
	began := time.Now()
	for method, want := range map[string][]string{
		"server/discover":          {`"tools"`, `"prompts"`, `"resources"`},
		"tools/list":               {`"old__`, `"new__`},
		"prompts/list":             {`"old__hello"`, `"new__hello"`},
		"resources/list":           {`"old://one"`, `"new://one"`},
		"resources/templates/list": {`"old://by/{id}"`, `"new://by/{id}"`},
	} {
		body := get(method, `{}`)
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s: %s is not in %s", method, text, body)
			}
		}
	}
	if took := time.Since(began); took > limit {
		t.Errorf("a silent server held the lists up for %v", took)
	}
	for request, want := range map[string]string{
		`prompts/get {"name":"new__hello"}`:                            "new got hello",
		`resources/read {"uri":"old://one"}`:                           "of old",
		`resources/read {"uri":"new://by/7"}`:                          "of new",
		`resources/read {"uri":"none://one"}`:                          "-32602",
		`tools/call {"name":"old__none"}`:                              "Unknown tool: none",
		`tools/call {"name":"none__echo"}`:                             "none of this endpoint's names",
		`tools/call {"name":"echo"}`:                                   "none of this endpoint's names",
		`example/unknown {}`:                                           "-32601",
		`completion/complete {"ref":{"type":"ref/prompt","name":"x"}}`: "none of this endpoint's names",
	} {
		method, params, _ := strings.Cut(request, " ")
		if body := get(method, params); !strings.Contains(body, want) {
			t.Errorf("%s: %s", request, body)
		}
	}
	if metrics := page(t, g.AdminURL()+"/metrics"); !strings.Contains(metrics, `taskgate_aggregate_missing_total{upstream="silent"}`) {
		t.Error("no metric tells of the one that is missing")
	}
	if !strings.Contains(g.log.String(), "upstream is missing in a list of several") {
		t.Error("the log does not tell of the one that is missing")
	}
}

// Policy knows a call by its upstream and the tool's own name, and so does its task.
func TestCallsOfSeveralUpstreams(t *testing.T) {
	g, old, new := joint(t, "rules: [{name: slow, match: {upstream: new, tool: echo}, promoteAfter: 0s}]\n")
	c := g.client(t, "/all", jointCapabilities)
	id := task(t, c, "new__echo", `{"text":"a"}`)
	if end := string(wait(t, c, id, wire.StatusCompleted).Bytes()); !strings.Contains(end, `"text":"a"`) {
		t.Errorf("the end: %s", end)
	}
	r := must(t)(c.CallTool(t.Context(), "old__echo", `{"text":"b"}`))
	if r.TaskID() != "" || !strings.Contains(string(r.Body), `"text":"b"`) {
		t.Errorf("the other upstream's: %s", r.Body)
	}
	for _, tool := range []string{"old__ask", "new__ask"} {
		id := task(t, c, tool, `{}`)
		answer(t, c, id)
		if end := string(wait(t, g.client(t, "/"+tool[:3], jointCapabilities), id, wire.StatusCompleted).Bytes()); !strings.Contains(end, "hello") {
			t.Errorf("%s: the end: %s", tool, end)
		}
	}
	for _, u := range []*mcptest.Upstream{old, new} {
		if len(u.Calls("echo", "")) != 1 || len(u.Calls("ask", "")) == 0 {
			t.Errorf("the calls there: %d of echo, %d of ask", len(u.Calls("echo", "")), len(u.Calls("ask", "")))
		}
	}
}

// One stream tells of changes at any of the servers.
func TestListeningToSeveralUpstreams(t *testing.T) {
	g, old, new := joint(t, "defaults: {}\n")
	ctx, stop := context.WithCancel(t.Context())
	var heard atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = g.client(t, "/all", `{}`).Call(ctx, "subscriptions/listen", wire.Raw(`{"notifications":{"toolsListChanged":true}}`),
			mcptest.OnNotification(func(m wire.Message) {
				if m.Method == wire.NoteTools {
					heard.Add(1)
				}
			})) // ends with ctx
	}()
	for _, u := range []*mcptest.Upstream{old, new} {
		mcptest.Eventually(t, limit, "the gateway listens", func() bool { return u.Listening() == 1 })
	}
	for i, u := range []*mcptest.Upstream{old, new} {
		before := heard.Load()
		mcptest.Eventually(t, limit, fmt.Sprint("the change at server ", i+1, " is heard"), func() bool {
			u.Broadcast(wire.Message{Method: wire.NoteTools})
			return heard.Load() > before
		})
	}
	stop()
	<-done
}

// A caller sees and reaches what its scopes are enough for.
func TestScopesOfMembersHold(t *testing.T) {
	u := mcptest.NewLegacy(askingTools()...)
	url := u.Start(t)
	g := start(t, withSums(fmt.Sprintf("identity: [{apiKeys: {header: X-Api-Key, keys: [{subject: ann, sha256: SUM(ann), scopes: [read]}]}}]\nupstreams:\n- {name: open, path: /open, url: %s}\n- {name: shut, path: /shut, url: %s, scopes: [write]}\n- {name: all, path: /all, scopes: [read], aggregate: [open, shut]}\n", url, url)), "defaults: {}\n")
	c := g.client(t, "/all", `{}`, "X-Api-Key", "ann")
	if list := string(must(t)(c.Call(t.Context(), "tools/list", wire.Raw(`{}`))).Body); !strings.Contains(list, "open__echo") || strings.Contains(list, "shut__") {
		t.Errorf("tools: %s", list)
	}
	r := must(t)(c.CallTool(t.Context(), "shut__echo", `{}`))
	if r.Status != http.StatusForbidden || len(u.Calls("echo", "")) != 0 {
		t.Errorf("a call without the scope: %d %s", r.Status, r.Body)
	}
}
