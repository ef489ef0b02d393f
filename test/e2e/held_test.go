package e2e

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// A client that cannot have a task waits; meanwhile proxies and timeouts on the
// way must see life, and the client its progress under its own token.
func TestHeldCallShowsLife(t *testing.T) {
	c := newClient(t, Start(t, Options{
		Upstream: mcptest.Everything(t, "streamableHttp").URL,
		Config:   "timeouts: {keepAlive: 1s}\n",
	}).Endpoint)
	reply := c.call(t, longTool, lasting(4, 2),
		mcptest.WithCapabilities(mcptest.NoCapabilities), mcptest.WithProgress(wire.Raw(`"mine"`)))
	if got := reply.Text(); !strings.HasPrefix(got, "Long running operation completed") {
		t.Errorf("result: %q", got)
	}
	if n := strings.Count(string(reply.Body), "\n:"); n < 2 {
		t.Errorf("%d comments in four seconds, want one for each second:\n%s", n, reply.Body)
	}
	if len(reply.Notifications) != 2 {
		t.Errorf("%d notifications, want the 2 steps:\n%s", len(reply.Notifications), reply.Body)
	}
	for _, n := range reply.Notifications {
		if n.Method != "notifications/progress" || !strings.Contains(string(n.Params), `"progressToken":"mine"`) {
			t.Errorf("notification: %s", n.Bytes())
		}
	}
}

// Before a call is a task, its client's hang-up cancels it. Afterwards a hang-up
// means nothing.
func TestHangUp(t *testing.T) {
	upstream := mcptest.NewLegacy(mcptest.Tool{Name: "until_cancelled", Run: untilCancelled})
	url := upstream.Start(t)
	t.Run("before promotion", func(t *testing.T) {
		c := newClient(t, Start(t, Options{Upstream: url, Policy: "defaults: {promoteAfter: 10m, timeout: 15m}\n"}).Endpoint)
		ctx, hangUp := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := c.begin(ctx, "until_cancelled", arguments{"key": "before"})
			gone <- err
		}()
		Eventually(t, "the tool runs", func() bool { return len(upstream.Calls("", "before")) == 1 })
		hangUp()
		if err := <-gone; err == nil {
			t.Error("the call has ended by itself")
		}
		Eventually(t, "the upstream is told", func() bool { return upstream.Calls("", "before")[0].Cancelled })
	})
	t.Run("after promotion", func(t *testing.T) {
		c := newClient(t, Start(t, Options{Upstream: url, Policy: promoteSoon}).Endpoint)
		id := c.start(t, "until_cancelled", arguments{"key": "after"})
		c.Close() // every connection this client has had
		c.wait(t, id, wire.StatusWorking)
		if upstream.Calls("", "after")[0].Cancelled {
			t.Error("the task's call was cancelled")
		}
	})
}

// untilCancelled works until it is told to stop.
func untilCancelled(c *mcptest.Call) (wire.Raw, *wire.Error) {
	<-c.Cancelled()
	return mcptest.Text("stopped"), nil
}

// The demo is what a stranger runs first: it must work with nothing installed.
func TestDemoRunsToItsEnd(t *testing.T) {
	cmd := exec.Command(os.Getenv(binaryVar), "demo", "--once", "--fast")
	cmd.Dir = t.TempDir()
	p := StartProcess(t, cmd)
	if code := p.Wait(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, p.Output())
	}
	for _, step := range []string{wire.StatusWorking, wire.StatusInputRequired, wire.StatusCompleted} {
		if !strings.Contains(p.Output(), step) {
			t.Errorf("the story does not tell of %q:\n%s", step, p.Output())
		}
	}
}
