package app_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskgate/audit"
	"taskgate/internal/mcptest"
	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
	"taskgate/wire"
)

// ends are the lines of the audit log that tell of ends of tasks.
func (g *gateway) ends(t *testing.T) (lines []string) {
	t.Helper()
	for _, line := range g.auditLines(t) {
		if strings.Contains(line, `"event":"task_ended"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

func wantEnds(t *testing.T, g *gateway, want ...string) {
	t.Helper()
	var got []string
	mcptest.Eventually(t, limit, "the ends are written down", func() bool { got = g.ends(t); return len(got) >= len(want) })
	for i, line := range got {
		if i >= len(want) || !strings.Contains(line, want[i]) {
			t.Errorf("got %s, want %q", line, want)
		}
	}
}

func TestEndsOfTasksAreAudited(t *testing.T) {
	u := mcptest.NewLegacy(append(askingTools(), mcptest.Tool{Name: "fail", Run: func(*mcptest.Call) (wire.Raw, *wire.Error) {
		return nil, wire.Errorf(-32099, "s3cret")
	}})...)
	g := start(t, withSums(people)+"upstreams: [{name: u, path: /mcp, url: \""+u.Start(t)+"\"}]\n", "defaults: {task: required, promoteAfter: 0s}\n")
	c := g.client(t, "/mcp", mcptest.TasksAndInput, "X-Api-Key", "ann-1")
	end := func(tool string) string {
		id := task(t, c, tool, `{"text":"m4rker"}`)
		mcptest.Eventually(t, limit, tool+" has ended", func() bool {
			return len(g.ends(t)) > 0 && strings.Contains(g.ends(t)[len(g.ends(t))-1], audit.TaskHash(id))
		})
		return audit.TaskHash(id)
	}
	first, second := end("echo"), end("fail")
	const who = `"tenant":"acme","subject":"ann","upstream":"u",`
	wantEnds(t, g, who+`"tool":"echo","task":"`+first+`","outcome":"completed"}`, who+`"tool":"fail","task":"`+second+`","outcome":"failed","code":-32099}`)
	for _, line := range g.auditLines(t) {
		if strings.Contains(line, "m4rker") || strings.Contains(line, "s3cret") {
			t.Errorf("tells too much: %s", line)
		}
	}
}

// TestTheEndByARescueIsAudited: the replica that took the call is no more.
func TestTheEndByARescueIsAudited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	b, err := boltstore.Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s, err := taskroute.NewStore(b, taskroute.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	rec := taskroute.NewRecord(taskroute.NewID(), taskroute.Owner{Tenant: "acme", Subject: "ann"}, taskroute.Task, "gone", time.Now())
	rec.State.Upstream, rec.State.Tool = "u", "block"
	if err := errors.Join(s.Create(t.Context(), rec), b.Close()); err != nil {
		t.Fatal(err)
	}
	u := mcptest.NewLegacy(askingTools()...)
	g := start(t, withSums(people)+"lease: 1s\ntimeouts: {drain: 0s, store: 500ms}\nstore: "+path+"\nupstreams: [{name: u, path: /mcp, url: \""+u.Start(t)+"\"}]\n", "defaults: {task: optional}\n")
	wantEnds(t, g, `"tenant":"acme","subject":"ann","upstream":"u","tool":"block","task":"`+audit.TaskHash(rec.ID)+`","outcome":"failed","code":-32603}`)
}
