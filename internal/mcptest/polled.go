package mcptest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// PollAfter is when a Polled server wants its client back.
const PollAfter = 10 * time.Millisecond

// Polled starts a server of the Go SDK whose tool "polled" ends the stream of its call,
// to be polled for its answer, "done", which is there once release is closed. It
// returns the URL.
func Polled(t testing.TB, release <-chan struct{}) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "polled", Version: "0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "polled"}, func(_ context.Context, r *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		r.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: PollAfter})
		<-release
		return text("done"), nil, nil
	})
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}))
	t.Cleanup(func() {
		s.CloseClientConnections() // their streams do not end by themselves
		s.Close()
	})
	return s.URL
}
