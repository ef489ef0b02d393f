package matrix

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/test/e2e"
)

// plan says which tool serves for a step, by step; a server without a tool for it
// has no such step.
type plan map[string]use

// use is a call of a tool, a part of its result, and what its question is answered.
type use struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
	Want      string         `json:"want"`
	Answer    map[string]any `json:"answer,omitempty"`
}

// server is a column of the table; start returns what the gateway is given as
// its upstream.
type server struct {
	name  string
	start func(t *testing.T) string
	plan  plan
}

var none = map[string]any{}

var everything = plan{
	"call":     {Tool: "echo", Arguments: map[string]any{"message": "hello"}, Want: "Echo: hello"},
	"slow":     {Tool: "trigger-long-running-operation", Arguments: map[string]any{"duration": 1, "steps": 2}, Want: "operation completed"},
	"question": {Tool: "trigger-elicitation-request", Arguments: none, Want: "User provided the requested information", Answer: map[string]any{"name": "Ann", "check": true}},
	"cancel":   {Tool: "trigger-long-running-operation", Arguments: map[string]any{"duration": 600, "steps": 2400}},
}

func goSDKPlan(question, asked string) plan {
	return plan{
		"call":     {Tool: "test_simple_text", Arguments: none, Want: "simple text response"},
		"slow":     {Tool: "test_tool_with_logging", Arguments: none, Want: "executed successfully"},
		"question": {Tool: question, Arguments: map[string]any{"message": "Your name?"}, Want: "Ann", Answer: map[string]any{asked: "Ann"}},
	}
}

var servers = []server{
	{"server-everything, HTTP", func(t *testing.T) string { return mcptest.Everything(t, "streamableHttp").URL }, everything},
	{"server-everything, stdio", func(t *testing.T) string { return npmServer(t, "everything") }, everything},
	{"server-everything, HTTP+SSE", func(t *testing.T) string { return mcptest.Everything(t, "sse").URL }, everything},
	{"go-sdk 2025-11-25", func(t *testing.T) string { return e2e.GoSDKServer(t, false) }, goSDKPlan("test_elicitation", "username")},
	{"go-sdk 2026-07-28", func(t *testing.T) string { return e2e.GoSDKServer(t, true) }, goSDKPlan("test_input_required_result_elicitation", "name")},
	{"system-monitor, HTTP", systemMonitor, plan{"call": {Tool: "get-system-info", Arguments: none, Want: "hostname"}}},
	{"filesystem, stdio", filesystem, plan{"call": {Tool: "list_allowed_directories", Arguments: none, Want: "Allowed directories"}}},
	{"memory, stdio", memory, plan{"call": {Tool: "read_graph", Arguments: none, Want: "entities"}}},
}

// npmServer is the command of one of the reference servers.
func npmServer(t *testing.T, name string) string {
	return mcptest.Node(t) + " " + mcptest.NPMFile(t, "@modelcontextprotocol", "server-"+name, "dist", "index.js")
}

// systemMonitor speaks 2025-11-25 over HTTP without sessions.
func systemMonitor(t *testing.T) string {
	addr := fmt.Sprintf("127.0.0.1:%d", e2e.FreePort(t))
	cmd := exec.Command(mcptest.Node(t), "-r", mcptest.Loopback(t),
		mcptest.NPMFile(t, "@modelcontextprotocol", "server-system-monitor", "dist", "index.js"))
	cmd.Env = append(os.Environ(), "PORT="+addr[len("127.0.0.1:"):])
	url := "http://" + addr + "/mcp"
	e2e.StartProcess(t, cmd).WaitAnswer(t, url)
	return url
}

func filesystem(t *testing.T) string { return npmServer(t, "filesystem") + " " + t.TempDir() }

func memory(t *testing.T) string {
	t.Setenv("MEMORY_FILE_PATH", filepath.Join(t.TempDir(), "memory.jsonl"))
	return npmServer(t, "memory")
}
