package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// tap stands between a client and the gateway and notes what the client asks.
type tap struct {
	URL string

	mu       sync.Mutex
	requests []*http.Request
}

func startTap(t testing.TB, endpoint string) *tap {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	tp := &tap{}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, target.Host
		tp.mu.Lock()
		defer tp.mu.Unlock()
		tp.requests = append(tp.requests, r.In)
	}}
	server := httptest.NewServer(forward)
	t.Cleanup(func() {
		server.CloseClientConnections() // a client's open stream would keep Close waiting
		server.Close()
	})
	tp.URL = server.URL + target.Path
	return tp
}

// seen are the client's requests so far.
func (tp *tap) seen() []*http.Request {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return slices.Clone(tp.requests)
}

// asked are their methods.
func (tp *tap) asked() (methods []string) {
	for _, r := range tp.seen() {
		methods = append(methods, r.Header.Get(wire.HeaderMethod))
	}
	return methods
}

const (
	longDone   = "Long running operation completed. Duration: 2 seconds, Steps: 2."
	answerDone = "User provided the requested information"
)

// The clients that know tasks call a slow tool and must see its result through a
// task; those that do not must see the same result without one.
func TestClientsSeeTheResultOfASlowTool(t *testing.T) {
	g := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon})
	args := lasting(2, 2)
	for _, c := range []struct {
		name  string
		tasks bool
		call  func(t *testing.T, url string) (result string)
	}{
		{"inspector", true, func(t *testing.T, url string) string {
			return text(t, inspector(t, url, longTool, "duration=2", "steps=2"))
		}},
		{"mcpdo", true, func(t *testing.T, url string) string {
			return text(t, newMcpdo(t, url).run(t, "tools/call", longTool, "duration:=2", "steps:=2"))
		}},
		{"ext-tasks", true, func(t *testing.T, url string) string {
			return text(t, extTasks(t, url, longTool, args).Result)
		}},
		{"go-sdk", true, func(t *testing.T, url string) string {
			return goSDK(t, url, longTool, args)
		}},
		{"typescript", false, func(t *testing.T, url string) string {
			return text(t, typescript(t, url, longTool, args).Result)
		}},
		{"mcp-go", false, func(t *testing.T, url string) string {
			return mcpGo(t, url, longTool, args)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tp := startTap(t, g.Endpoint)
			if got := c.call(t, tp.URL); got != longDone {
				t.Errorf("result: %q, want %q", got, longDone)
			}
			if asked := tp.asked(); slices.Contains(asked, "tasks/get") != c.tasks {
				t.Errorf("asked for a task: want %t; requests: %v", c.tasks, asked)
			}
		})
	}
}

func TestClientsAnswerAQuestion(t *testing.T) {
	g := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon})
	const tool = "trigger-elicitation-request"
	for name, call := range map[string]func(t *testing.T, url string) string{
		"mcpdo": func(t *testing.T, url string) string { return newMcpdo(t, url).answer(t, tool) },
		"ext-tasks": func(t *testing.T, url string) string {
			seen := extTasks(t, url, tool, arguments{})
			if !slices.Equal(seen.Questions, []string{"elicitation"}) {
				t.Errorf("questions: %v", seen.Questions)
			}
			return text(t, seen.Result)
		},
		"go-sdk": func(t *testing.T, url string) string { return goSDK(t, url, tool, arguments{}) },
	} {
		t.Run(name, func(t *testing.T) {
			tp := startTap(t, g.Endpoint)
			if got := call(t, tp.URL); !strings.Contains(got, answerDone) {
				t.Errorf("result %q does not contain %q", got, answerDone)
			}
			if asked := tp.asked(); !slices.Contains(asked, "tasks/update") {
				t.Errorf("the answer did not go through tasks/update; requests: %v", asked)
			}
		})
	}
}

func TestExtTasksCancels(t *testing.T) {
	g := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon})
	seen := extTasks(t, g.Endpoint, longTool, lasting(600, 600), "cancel")
	if seen.Status != wire.StatusCancelled {
		t.Errorf("outcome: %s (%s), want cancelled", seen.Status, seen.Error)
	}
}

// inspector is the Inspector's command line. It is one process for one call.
func inspector(t testing.TB, url, tool string, toolArgs ...string) wire.Raw {
	t.Helper()
	args := []string{"--cli", "--transport", "http", "--server-url", url, "--protocol-era", "modern",
		"--method", "tools/call", "--tool-name", tool, "--format", "json"}
	for _, a := range toolArgs {
		args = append(args, "--tool-arg", a)
	}
	launcher := mcptest.NPMFile(t, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	var out struct{ Result wire.Raw }
	parse(t, runNode(t, []string{"HOME=" + t.TempDir()}, launcher, args...), &out)
	return out.Result
}

// mcpdo is the Inspector's other command line, which keeps a connection in a
// daemon between calls.
type mcpdo struct {
	script, url string
	env         []string
}

func newMcpdo(t testing.TB, url string) mcpdo {
	t.Helper()
	m := mcpdo{
		script: mcptest.NPMFile(t, "@modelcontextprotocol", "inspector", "clients", "mcpdo", "build", "mcp-bin.js"),
		url:    url,
		env:    []string{"HOME=" + t.TempDir(), "MCP_INSPECTOR_SECRET_STORE=file"},
	}
	runNode(t, m.env, m.script, "connect", url, "--era", "modern", "--transport", "http")
	t.Cleanup(func() { runNode(t, m.env, m.script, "daemon", "stop") })
	return m
}

func (m mcpdo) run(t testing.TB, args ...string) wire.Raw {
	t.Helper()
	return runNode(t, m.env, m.script, append([]string{"--connection", m.url, "--format", "json"}, args...)...)
}

// answer calls a tool that asks one question, and answers it.
func (m mcpdo) answer(t testing.TB, tool string) string {
	t.Helper()
	var pending struct {
		ElicitationPending struct{ ElicitationID, Origin string }
	}
	parse(t, m.run(t, "tools/call", tool), &pending)
	if got := pending.ElicitationPending.Origin; got != "task-input-required" {
		t.Errorf("the question came from %q, not from a task", got)
	}
	return text(t, m.run(t, "elicitation/respond", pending.ElicitationPending.ElicitationID, "name:=Ann", "check:=true"))
}

// extTasksSeen is what testdata/exttasks.mjs prints.
type extTasksSeen struct {
	Era, Kind, TaskID, Status, Error string
	Questions                        []string
	Result                           wire.Raw
}

func extTasks(t testing.TB, url, tool string, args arguments, more ...string) extTasksSeen {
	t.Helper()
	var seen extTasksSeen
	parse(t, runDriver(t, "exttasks.mjs", append([]string{url, tool, marshal(t, args)}, more...)...), &seen)
	if seen.Era != "modern" || seen.Kind != "task" {
		t.Errorf("ext-tasks was %s and saw a %s, want modern and task", seen.Era, seen.Kind)
	}
	return seen
}

// typescriptSeen is what testdata/tsclient.mjs prints.
type typescriptSeen struct {
	Era    string
	Result wire.Raw
}

func typescript(t testing.TB, url, tool string, args arguments) typescriptSeen {
	t.Helper()
	var seen typescriptSeen
	parse(t, runDriver(t, "tsclient.mjs", url, tool, marshal(t, args)), &seen)
	if seen.Era != "modern" {
		t.Errorf("the TypeScript client was %s, want modern", seen.Era)
	}
	return seen
}

func goSDK(t testing.TB, url, tool string, args arguments) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := goSDKTask(ctx, url, tool, args, map[string]any{"name": "Ann", "check": true})
	if err != nil {
		t.Fatal(err)
	}
	return r.Content[0].(*mcp.TextContent).Text
}

func mcpGo(t testing.TB, url, tool string, args arguments) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := mcpGoClient(ctx, t, url).CallTool(ctx, mcpgo.CallToolRequest{Params: mcpgo.CallToolParams{Name: tool, Arguments: map[string]any(args)}})
	if err != nil {
		t.Fatal(err)
	}
	return mcpgo.GetTextFromContent(r.Content[0])
}

// mcpGoClient is mcp-go's client, which has agreed on 2026-07-28.
func mcpGoClient(ctx context.Context, t testing.TB, url string, options ...mcpgoclient.ClientOption) *mcpgoclient.Client {
	t.Helper()
	tr, err := transport.NewStreamableHTTP(url)
	if err != nil {
		t.Fatal(err)
	}
	c := mcpgoclient.NewClient(tr, options...)
	t.Cleanup(func() { c.Close() })
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Initialize(ctx, mcpgo.InitializeRequest{Params: mcpgo.InitializeParams{
		ClientInfo: mcpgo.Implementation{Name: "mcp-go", Version: "0"}}}); err != nil {
		t.Fatal(err)
	}
	if got := c.ProtocolVersion(); got != wire.Version {
		t.Errorf("mcp-go speaks %s, want %s", got, wire.Version)
	}
	return c
}

func parse(t testing.TB, out []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("output is not what was expected: %v\n%s", err, out)
	}
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
