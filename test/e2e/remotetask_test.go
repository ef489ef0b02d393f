package e2e

import (
	"strings"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// server-everything runs this tool only as a task of its own (2025-11-25), asks
// on the stream of tasks/result, and tells how far it is in status messages.
func TestATaskOfALegacyServerBecomesOneOfTheGateway(t *testing.T) {
	c := newClient(t, Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon}).Endpoint)
	id := c.start(t, "simulate-research-query", arguments{"topic": "python", "ambiguous": true})
	seen := ""
	Eventually(t, "a status message of the server", func() bool {
		task, _, err := c.look(t.Context(), id)
		seen, _ = wire.String(task.Get("statusMessage"))
		return err == nil && strings.HasSuffix(seen, "...")
	})
	task := c.wait(t, id, wire.StatusInputRequired)
	if err := c.respond(t.Context(), id, task, mcptest.Accept(`{"interpretation":"snake"}`)); err != nil {
		t.Fatal(err)
	}
	task = c.wait(t, id, wire.StatusCompleted)
	if got := text(t, task.Get("result")); !strings.Contains(got, "Research Report: python (snake)") {
		t.Errorf("result: %s", got)
	}
	if strings.Contains(string(task.Get("result")), "related-task") {
		t.Errorf("the server's own task shows: %s", task.Get("result"))
	}
}

// One that did not declare tasks gets the result of such a tool all the same.
func TestATaskOfALegacyServerIsHeldForClientsWithoutTasks(t *testing.T) {
	c := newClient(t, Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL}).Endpoint)
	r := resultOf(t, c.call(t, "simulate-research-query", arguments{"topic": "bees"}, mcptest.WithCapabilities(mcptest.NoCapabilities)))
	if got := text(t, r.Bytes()); !strings.HasPrefix(got, "# Research Report: bees") {
		t.Errorf("result: %s", got)
	}
}
