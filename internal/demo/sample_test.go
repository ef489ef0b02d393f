package demo

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// callReport calls the slow tool as the Go SDK's client does, which first tries
// the modern protocol.
func callReport(t *testing.T, o *mcp.ClientOptions) (version, answer string) {
	t.Helper()
	server, err := startSample(time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.close)
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: server.url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "generate_report", Arguments: map[string]any{"topic": "tides"}})
	if err != nil || r.IsError || len(r.Content) != 1 {
		t.Fatalf("got %+v, %v", r, err)
	}
	return s.InitializeResult().ProtocolVersion, r.Content[0].(*mcp.TextContent).Text
}

func TestSampleSpeaksLegacyOnly(t *testing.T) {
	if version, _ := callReport(t, nil); version != "2025-11-25" {
		t.Errorf("got version %s, want 2025-11-25", version)
	}
}

func TestSampleAsksWhoCanBeAsked(t *testing.T) {
	answer := func(action string, content map[string]any) *mcp.ClientOptions {
		return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: action, Content: content}, nil
		}}
	}
	const refused = "The outline was not approved, so there is no report."
	for name, c := range map[string]struct {
		options *mcp.ClientOptions
		want    string
	}{
		"cannot be asked": {nil, report("tides")},
		"approves":        {answer("accept", map[string]any{"approve": true}), report("tides")},
		"disapproves":     {answer("accept", map[string]any{"approve": false}), refused},
		"declines":        {answer("decline", nil), refused},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := callReport(t, c.options); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
