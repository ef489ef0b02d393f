package e2e

import (
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// A program on stdio is promoted, asked back and cancelled like a server on HTTP.
func TestAProgramOnStdioGainsTasks(t *testing.T) {
	command := "node " + mcptest.NPMFile(t, "@modelcontextprotocol", "server-everything", "dist", "index.js") + " stdio"
	c := newClient(t, Start(t, Options{Upstream: command, Policy: promoteSoon}).Endpoint)

	id := c.start(t, "trigger-long-running-operation", arguments{"duration": 2, "steps": 4})
	c.wait(t, id, wire.StatusCompleted)

	id = c.start(t, "trigger-elicitation-request", arguments{})
	asked := c.wait(t, id, wire.StatusInputRequired)
	requests, _ := asked.Object("inputRequests")
	if len(requests) != 1 {
		t.Fatalf("questions: %s", requests.Bytes())
	}
	if _, err := c.Update(t.Context(), id, wire.Object{}.With(requests[0].Name, mcptest.Accept(`{"name":"Ann","check":true}`))); err != nil {
		t.Fatal(err)
	}
	c.wait(t, id, wire.StatusCompleted)

	id = c.start(t, "trigger-long-running-operation", arguments{"duration": 60, "steps": 60})
	if _, err := c.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	c.wait(t, id, wire.StatusCancelled)
}
