package app_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

func TestMain(m *testing.M) {
	mcptest.MainOnStdio()
	os.Exit(m.Run())
}

// A tool of a program on stdio asks, as a task; a program that keeps ending is
// told of to its operator in full, and to clients without what it wrote.
func TestProgramsOnStdio(t *testing.T) {
	g := start(t, fmt.Sprintf("adminListen: 127.0.0.1:0\nupstreams:\n- {name: good, path: /good, era: legacy, command: %s}\n- {name: bad, path: /bad, era: legacy, command: %s}\n",
		mcptest.JSON(mcptest.OnStdio(t)), mcptest.JSON(mcptest.OnStdio(t, "-dies"))), "defaults: {promoteAfter: 0s}\n")
	good := g.client(t, "/good", `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	id := task(t, good, "ask", `{"text":"a"}`)
	wait(t, good, id, wire.StatusInputRequired)
	answer(t, good, id)
	if end := string(wait(t, good, id, wire.StatusCompleted).Bytes()); !strings.Contains(end, "a accept") {
		t.Errorf("the end: %s", end)
	}

	bad := g.client(t, "/bad", `{}`)
	mcptest.Eventually(t, limit, "the program is not started again for a while", func() bool {
		r := must(t)(bad.CallTool(t.Context(), "echo", `{}`))
		if strings.Contains(string(r.Body), "secret") {
			t.Errorf("a client is told what the program wrote: %s", r.Body)
		}
		return strings.Contains(string(r.Body), "exit status 3") && strings.Contains(string(r.Body), "in a row")
	})
	if ready := page(t, g.AdminURL()+"/readyz"); !strings.Contains(ready, `"upstreams":{"bad":"the program ended: exit status 3`) {
		t.Errorf("readyz: %s", ready)
	}
	if metrics := page(t, g.AdminURL()+"/metrics"); !strings.Contains(metrics, `taskgate_upstream_processes_failed_total{upstream="bad"}`) {
		t.Error("there is no metric of it")
	}
	if !strings.Contains(g.log.String(), `"upstream":"bad"`) || !strings.Contains(g.log.String(), "secret of the server") {
		t.Error("what the program wrote is not in the log")
	}
}

// The start of a program is not its tools' time.
func TestTheStartOfAProgramIsNoTimeOfItsCalls(t *testing.T) {
	g := start(t, fmt.Sprintf("upstreams:\n- {name: slow, path: /slow, era: legacy, command: %s}\n", mcptest.JSON(mcptest.OnStdio(t, "-late=1s"))),
		"defaults: {task: forbidden, timeout: 500ms}\n", "TASKGATE_TIMEOUTS_INFO_WAIT=100ms") // which would start it for the list of its tools
	began := time.Now()
	r := must(t)(g.client(t, "/slow", `{}`).CallTool(t.Context(), "echo", `{"text":"x"}`))
	if !strings.Contains(string(r.Body), `"text":"x"`) || time.Since(began) < time.Second {
		t.Errorf("after %v: %s", time.Since(began), r.Body)
	}
}
