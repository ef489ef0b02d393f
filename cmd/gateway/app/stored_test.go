package app_test

import (
	"net/http"
	"strings"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/wire"
)

// TestStoredBytesAreLimited: who has as much in the store as a caller may have gets
// no further task, and is told why; others do. What is there stays.
func TestStoredBytesAreLimited(t *testing.T) {
	for store, url := range map[string]string{"embedded": "$DIR/tasks.db", "redis": redistest.Start(t).URL()} {
		u := mcptest.NewModern(askingTools()...)
		g := start(t, "store: "+url+"\nadminListen: 127.0.0.1:0\nlimits: {maxStoredBytesPerPrincipal: 20KiB}\n"+withSums(people)+
			"upstreams: [{name: u, path: /mcp, url: \""+u.Start(t)+"\"}]\n", "defaults: {task: required, promoteAfter: 0s}\n")
		ann, bob := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-1"), g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "bob")
		large := `{"text":"` + strings.Repeat("x", 7<<10) + `"}` // once in the parameters, once in the result
		first := task(t, ann, "echo", large)
		wait(t, ann, first, wire.StatusCompleted)
		r := must(t)(ann.CallTool(t.Context(), "echo", large))
		if r.Status != http.StatusTooManyRequests || r.Err() == nil || string(r.Err().Data) != `{"reason":"too_much_stored","retriable":true,"limit":20480}` {
			t.Errorf("%s: status %d, %s", store, r.Status, r.Body)
		}
		if n := len(u.Calls("echo", "")); n != 1 {
			t.Errorf("%s: the upstream was called %d times", store, n)
		}
		task(t, bob, "echo", large)
		wait(t, ann, first, wire.StatusCompleted)
		if text := page(t, g.AdminURL()+"/metrics"); !strings.Contains(text, `taskgate_limited_total{reason="too_much_stored"} 1`) {
			t.Errorf("%s: no metric counts the refusal", store)
		}
	}
}
