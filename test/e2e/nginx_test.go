package e2e

import (
	"context"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/wire"
)

// lasts works for as long as it is told.
func lasts(d time.Duration) mcptest.Func {
	return func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		c.Sleep(d)
		return mcptest.Text("done"), nil
	}
}

// Behind nginx as it comes out of its package, both profiles give a client a
// task well before nginx gives up, and keep one that cannot have a task alive
// for longer than nginx waits for a byte.
func TestProfilesBehindNginx(t *testing.T) {
	const nginxGivesUp = 60 * time.Second
	for profile, promoted := range map[string]time.Duration{"sidecar": 5 * time.Second, "edge": 10 * time.Second} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			upstream := mcptest.NewLegacy(mcptest.Tool{Name: "long", Run: lasts(nginxGivesUp + 3*time.Second)})
			url := Nginx(t, "", Start(t, Options{Upstream: upstream.Start(t), Policy: "profile: " + profile + "\n"}))
			c := newClient(t, url)

			held := make(chan mcptest.Reply, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), nginxGivesUp+patience)
				defer cancel()
				reply, err := c.CallTool(ctx, "long", `{"key":"held"}`, mcptest.WithCapabilities(mcptest.NoCapabilities))
				if err != nil {
					t.Errorf("the held call: %v", err)
				}
				held <- reply
			}()
			var id string
			within(t, promoted+10*time.Second, "the handle", func() { id = c.start(t, "long", arguments{"key": "task"}) })
			if got := (<-held).Text(); got != "done" {
				t.Errorf("the held call's result is %q", got)
			}
			result := c.wait(t, id, wire.StatusCompleted).Get("result")
			if got := text(t, result); got != "done" {
				t.Errorf("the task's result is %q", got)
			}
			if n := len(upstream.Calls("long", "")); n != 2 {
				t.Errorf("the tool ran %d times, want 2", n)
			}
		})
	}
}

// A proxy that re-sends a slow POST to the next replica runs the tool twice;
// with dedupe, once.
func TestResentPOSTRunsOnce(t *testing.T) {
	t.Parallel()
	const impatient = "proxy_next_upstream error timeout non_idempotent; proxy_read_timeout 3s;"
	upstream := mcptest.NewLegacy(mcptest.Tool{Name: "slow", Run: lasts(4 * time.Second)})
	o := Options{
		Upstream: upstream.Start(t), Store: redistest.Start(t).URL(),
		Policy: "rules: [{match: {tool: slow}, dedupe: {within: 10m}}]\n",
	}
	a, b := Start(t, o), Start(t, o)
	c := newClient(t, Nginx(t, impatient, a, b))
	// Who accepts only JSON gets no byte before the answer.
	reply := c.call(t, "slow", arguments{"key": "once"},
		mcptest.WithCapabilities(mcptest.NoCapabilities), mcptest.WithHeader("Accept", "application/json"))
	if got := reply.Text(); got != "done" {
		t.Errorf("result: %s", reply.Body)
	}
	if n := len(upstream.Calls("slow", "once")); n != 1 {
		t.Errorf("the tool ran %d times, want once", n)
	}
	if joined := b.metric(t, `taskgate_calls_joined_total{upstream="default"}`); joined != 1 {
		t.Errorf("the second replica joined %v calls, want 1: nginx did not re-send", joined)
	}
}
