package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// The tests here are of what real clients and servers do otherwise than the protocol
// says, or than others do. Each shows that they do, and that it does no harm.

// names are the Mcp-Name headers of the requests of that method.
func (tp *tap) names(method string) (all []string) {
	for _, r := range tp.seen() {
		if r.Header.Get(wire.HeaderMethod) == method {
			all = append(all, r.Header.Get(wire.HeaderName))
		}
	}
	return slices.Compact(all)
}

func TestTheGoSDKSendsNoNameOfATask(t *testing.T) {
	tp := startTap(t, Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon}).Endpoint)
	if got := goSDK(t, tp.URL, longTool, lasting(2, 2)); got != longDone {
		t.Errorf("result: %q, want %q", got, longDone)
	}
	if got := tp.names("tasks/get"); !slices.Equal(got, []string{""}) {
		t.Errorf("names on tasks/get: %q", got)
	}
}

func TestMCPGoSendsNoNameOfATask(t *testing.T) {
	g := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon})
	id := newClient(t, g.Endpoint).start(t, longTool, lasting(600, 600))
	tp := startTap(t, g.Endpoint)
	c := mcpGoClient(t.Context(), t, tp.URL, mcpgoclient.WithClientCapabilities(mcpgo.ClientCapabilities{Extensions: map[string]any{wire.TasksExtension: map[string]any{}}}))
	task, err := c.GetTask(t.Context(), mcpgo.GetTaskRequest{Params: mcpgo.GetTaskParams{TaskId: id}})
	if err != nil || string(task.Status) != wire.StatusWorking {
		t.Errorf("task: %+v, %v", task, err)
	}
	if got := tp.names("tasks/get"); !slices.Equal(got, []string{""}) {
		t.Errorf("names on tasks/get: %q", got)
	}
}

// A server need not give roots/list any params, and the Go SDK fails a call whose
// question has none.
func TestTheGoSDKIsAskedForRoots(t *testing.T) {
	up := mcptest.NewLegacy(mcptest.Tool{Name: "folders", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		answers, err := c.Ask(mcptest.Question{Key: "r", Method: wire.MethodRoots})
		return mcptest.Text(string(answers["r"])), err
	}})
	g := Start(t, Options{Upstream: up.Start(t)})
	c := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "0"}, nil)
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: g.Endpoint}, &mcp.ClientSessionOptions{ProtocolVersion: wire.Version})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "folders"})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Content[0].(*mcp.TextContent).Text; got != `{"roots":[]}` {
		t.Errorf("the tool got %s", got)
	}
}

// mcp-remote sends the headers of 2026-07-28 in its sessions, and asks for a stream
// before it has one.
func TestMCPRemoteSendsModernHeadersInASession(t *testing.T) {
	tp := startTap(t, Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon}).Endpoint)
	s := goSDKLegacy(t, mcpRemote(t, tp.URL), longTool, lasting(2, 2))
	if got := text(t, s.Result); got != longDone {
		t.Errorf("result: %q, want %q", got, longDone)
	}
	requests := tp.seen()
	if first := requests[0]; first.Method != http.MethodGet || first.Header.Get(wire.HeaderSession) != "" {
		t.Errorf("its first request is %s in session %q", first.Method, first.Header.Get(wire.HeaderSession))
	}
	if !slices.ContainsFunc(requests, func(r *http.Request) bool {
		return r.Header.Get(wire.HeaderMethod) == "tools/call" && r.Header.Get(wire.HeaderSession) != ""
	}) {
		t.Errorf("methods in its headers: %q", tp.asked())
	}
}

// A server of both eras is spoken to in the newer one. A tool of it that asks as
// the older has it can only do so there, which is for the configuration to say.
func TestMCPGoServersAskInTheirOlderEraOnly(t *testing.T) {
	server := mcpgoserver.NewMCPServer("mcp-go", "0", mcpgoserver.WithElicitation())
	server.AddTool(mcpgo.NewTool("ask"), func(ctx context.Context, _ mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		r, err := server.RequestElicitation(ctx, mcpgo.ElicitationRequest{Params: mcpgo.ElicitationParams{
			Message: "Who?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}}})
		if err != nil {
			return nil, err
		}
		return mcpgo.NewToolResultText(string(mcptest.JSON(r.Content))), nil
	})
	s := httptest.NewServer(mcpgoserver.NewStreamableHTTPServer(server))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	for era, want := range map[string]string{"auto": "not supported in protocol version 2026-07-28", "legacy": "Ann"} {
		t.Run(era, func(t *testing.T) {
			c := newClient(t, Start(t, Options{Config: "upstreams: [{name: up, url: " + s.URL + "/mcp, era: " + era + "}]\n"}).Endpoint)
			reply := c.call(t, "ask", arguments{})
			if id := reply.TaskID(); id != "" {
				task := c.wait(t, id, wire.StatusInputRequired)
				if err := c.respond(t.Context(), id, task, mcptest.Accept(`{"name":"Ann"}`)); err != nil {
					t.Fatal(err)
				}
				if got := string(c.wait(t, id, wire.StatusCompleted).Bytes()); !strings.Contains(got, want) {
					t.Errorf("task: %s", got)
				}
			} else if !strings.Contains(string(reply.Body), want) {
				t.Errorf("answer: %s", reply.Body)
			}
		})
	}
}
