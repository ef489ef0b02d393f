package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// versions puts two policy files in the place of the ones before, together, as
// a mounted ConfigMap does. In version i a task is polled every i seconds, which
// the one file says, and lives i seconds over an hour, which the other says.
func versions(t *testing.T) (now string, put func(i int)) {
	dir := t.TempDir()
	return filepath.Join(dir, "now"), func(i int) {
		t.Helper()
		real := filepath.Join(dir, fmt.Sprint("v", i))
		if err := os.Mkdir(real, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(real, "a.yaml"), fmt.Sprintf("defaults: {pollInterval: %ds}\n", i))
		write(t, filepath.Join(real, "b.yaml"), fmt.Sprintf("rules: [{match: {tool: \"*\"}, task: required, ttl: %ds}]\n", i+3600))
		if err := os.Symlink(real, real+".link"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(real+".link", filepath.Join(dir, "now")); err != nil {
			t.Fatal(err)
		}
	}
}

// versionOf is the version that a task was made under; it fails when two have a
// part in it.
func versionOf(t *testing.T, task wire.Object) int {
	t.Helper()
	poll, err1 := strconv.Atoi(string(task.Get("pollIntervalMs")))
	ttl, err2 := strconv.Atoi(string(task.Get("ttlMs")))
	if err1 != nil || err2 != nil || ttl-3_600_000 != poll {
		t.Errorf("a mixture, or no task: %s", task.Bytes())
	}
	return poll / 1000
}

// TestReloadUnderLoad: while the policy is replaced again and again every call
// gets its task, of one version, and runs once; a task that runs keeps what it
// was made under.
func TestReloadUnderLoad(t *testing.T) {
	const last, callers = 40, 4
	u := mcptest.NewModern(askingTools()...)
	dir, put := versions(t)
	put(1)
	g := start(t, "upstreams: [{name: u, url: \""+u.Start(t)+"\"}]\npolicy: ["+dir+"/a.yaml, "+dir+"/b.yaml]\n", "")
	c := g.client(t, "/mcp", mcptest.TasksAndInput)
	running := task(t, c, "block", `{}`)

	done := make(chan struct{})
	var calling sync.WaitGroup
	var mu sync.Mutex
	made := map[string]int{} // version by task
	for range callers {
		calling.Go(func() {
			c := g.client(t, "/mcp", mcptest.TasksAndInput)
			for more := true; more; {
				select {
				case <-done:
					more = false // and one last call
				default:
				}
				r, err := c.CallTool(t.Context(), "echo", `{"text":"x"}`)
				if err != nil || r.TaskID() == "" {
					t.Errorf("a call was dropped: %s, %v", r.Body, err)
					return
				}
				mu.Lock()
				made[r.TaskID()] = versionOf(t, r.Result())
				mu.Unlock()
			}
		})
	}
	for i := 2; i <= last; i++ {
		put(i)
		g.Reload()
	}
	close(done)
	calling.Wait()

	newest := 0
	for id, version := range made {
		newest = max(newest, version)
		if kept := versionOf(t, wait(t, c, id, wire.StatusCompleted)); kept != version {
			t.Errorf("a task of version %d is of version %d now", version, kept)
		}
	}
	if n := len(u.Calls("echo", "")); n != len(made) {
		t.Errorf("%d calls became %d at the upstream", len(made), n)
	}
	if newest != last {
		t.Errorf("the newest task is of version %d, the newest policy is %d", newest, last)
	}
	if v := versionOf(t, wait(t, c, running, wire.StatusWorking)); v != 1 {
		t.Errorf("the task that ran all the while is of version %d now", v)
	}
	must(t)(c.Cancel(t.Context(), running))
}
