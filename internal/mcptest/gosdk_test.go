package mcptest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The upstreams of both eras, judged by a client that nobody here wrote.
func TestFixturesAsTheGoSDKSeesThem(t *testing.T) {
	for name, u := range map[string]*Upstream{
		"legacy":                    NewLegacy(Fixtures(10 * time.Millisecond)...),
		"legacy resumable":          with(NewLegacy(Fixtures(10*time.Millisecond)...), Options{Resumable: true}),
		"modern":                    NewModern(Fixtures(10 * time.Millisecond)...),
		"modern with request state": with(NewModern(Fixtures(10*time.Millisecond)...), Options{RequestState: true}),
	} {
		t.Run(name, func(t *testing.T) {
			Goroutines(t)
			u.HandleFixtures()
			seen := &progressLog{}
			session := connect(t, u.Start(t), seen)
			checkFixtures(t, session)
			if seen.count() < 3 {
				t.Errorf("%d progress notifications", seen.count())
			}
			if got := len(u.Calls("greet", "")); got != 1 {
				t.Errorf("greet ran %d times", got)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			if n := u.Sessions(); n != 0 {
				t.Errorf("%d sessions left", n)
			}
		})
	}
}

func with(u *Upstream, o Options) *Upstream {
	u.Options = o
	return u
}

type progressLog struct {
	mu  sync.Mutex
	all []float64
}

func (p *progressLog) add(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, r.Params.Progress)
}

func (p *progressLog) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

func connect(t *testing.T, url string, seen *progressLog) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true, "name": "Ann", "colour": "red"}}, nil
		},
		ProgressNotificationHandler: seen.add,
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func checkFixtures(t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input", "test_tool_with_task"}) {
		t.Errorf("tools: %v", names)
	}
	for _, c := range []struct {
		tool      string
		arguments any
		want      string
	}{
		{"greet", map[string]any{"name": "World"}, "Hello, World!"},
		{"slow_compute", map[string]any{"seconds": 3}, "Computed."},
		{"failing_job", nil, "The job failed. (error)"},
		{"confirm_delete", map[string]any{"filename": "a.txt"}, "Deleted a.txt."},
		{"multi_input", nil, "Ann likes red."},
		{"test_tool_with_task", nil, "Hello, Ann!"},
	} {
		if got, err := callSDK(t, session, c.tool, c.arguments); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.tool, got, err)
		}
	}
	if got, err := callSDK(t, session, "protocol_error_job", nil); err == nil {
		t.Errorf("protocol_error_job: %q", got)
	}
	if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://static-text"}); err != nil {
		t.Error(err)
	}
	if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://none"}); err == nil {
		t.Error("a resource that is not there was read")
	}
}

func callSDK(t *testing.T, session *mcp.ClientSession, tool string, arguments any) (string, error) {
	t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	params.SetProgressToken("p-" + tool)
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		return "", err
	}
	text := ""
	for _, c := range result.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			text += c.Text
		}
	}
	if result.IsError {
		text = fmt.Sprintf("%s (error)", text)
	}
	return text, nil
}
