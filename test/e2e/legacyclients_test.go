package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// seen is what a client has seen of one call.
type seen struct {
	Version             string
	Questions, Progress int
	Result              wire.Raw
}

// legacyClients open a session, most of them because they do so by default. Each
// calls one tool, tells of its progress and answers its question.
var legacyClients = map[string]func(t *testing.T, url, tool string, args arguments) seen{
	"typescript client": func(t *testing.T, url, tool string, args arguments) seen {
		return typescriptLegacy(t, "client", url, tool, args)
	},
	"typescript sdk": func(t *testing.T, url, tool string, args arguments) seen {
		return typescriptLegacy(t, "sdk", url, tool, args)
	},
	"go-sdk": func(t *testing.T, url, tool string, args arguments) seen {
		return goSDKLegacy(t, &mcp.StreamableClientTransport{Endpoint: url}, tool, args)
	},
	"mcp-remote": func(t *testing.T, url, tool string, args arguments) seen {
		return goSDKLegacy(t, mcpRemote(t, url), tool, args)
	},
	"mcp-go": mcpGoLegacy,
}

// Behind is a server of either era; the clients see what they would see of a
// server of their own.
func TestLegacyClientsSeeASlowToolAndItsQuestion(t *testing.T) {
	legacy := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon}).Endpoint
	modern := Start(t, Options{Upstream: GoSDKServer(t, true), Policy: promoteSoon}).Endpoint
	for name, call := range legacyClients {
		t.Run(name, func(t *testing.T) {
			s := call(t, legacy, longTool, lasting(2, 4))
			if got, want := text(t, s.Result), "Long running operation completed. Duration: 2 seconds, Steps: 4."; got != want {
				t.Errorf("result: %q, want %q", got, want)
			}
			if s.Version != wire.LegacyVersion || s.Progress == 0 {
				t.Errorf("it spoke %s and saw %d notes of progress", s.Version, s.Progress)
			}
			for url, c := range map[string]struct{ tool, want string }{
				legacy: {"trigger-elicitation-request", answerDone},
				modern: {"test_input_required_result_elicitation", "Ann"},
			} {
				s := call(t, url, c.tool, arguments{})
				if got := text(t, s.Result); !strings.Contains(got, c.want) || s.Questions != 1 {
					t.Errorf("%s: %d questions, result %q, want %q in it", c.tool, s.Questions, got, c.want)
				}
			}
		})
	}
}

// A client whose server ends the stream of its call comes back for the answer.
func TestLegacyClientsThatAreSentAwayComeBack(t *testing.T) {
	release := make(chan struct{})
	close(release)
	g := Start(t, Options{Upstream: mcptest.Polled(t, release)})
	for name, call := range legacyClients {
		t.Run(name, func(t *testing.T) {
			tp := startTap(t, g.Endpoint)
			if got := text(t, call(t, tp.URL, "polled", arguments{}).Result); got != "done" {
				t.Errorf("result: %q", got)
			}
			if !slices.ContainsFunc(tp.seen(), func(r *http.Request) bool { return r.Header.Get(wire.HeaderLastEvent) != "" }) {
				t.Error("it has not come back")
			}
		})
	}
}

// The Inspector's command line declares no elicitation.
func TestInspectorInItsDefaultEra(t *testing.T) {
	g := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon})
	launcher := mcptest.NPMFile(t, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	var out struct{ Result wire.Raw }
	parse(t, runNode(t, []string{"HOME=" + t.TempDir()}, launcher, "--cli", "--transport", "http", "--server-url", g.Endpoint,
		"--method", "tools/call", "--tool-name", longTool, "--tool-arg", "duration=2", "--tool-arg", "steps=2", "--format", "json"), &out)
	if got := text(t, out.Result); got != longDone {
		t.Errorf("result: %q, want %q", got, longDone)
	}
}

// The official requester drives the tasks of 2025-11-25 as well, in a session; it
// does not fetch a question by tasks/result there.
func TestExtTasksInASession(t *testing.T) {
	g := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon})
	var seen extTasksSeen
	parse(t, runDriver(t, "exttasks.mjs", g.Endpoint, longTool, marshal(t, lasting(2, 2)), "legacy"), &seen)
	if seen.Era != "legacy" || seen.Kind != "task" || seen.Status != wire.StatusCompleted {
		t.Errorf("%s, %s, %s, error %s", seen.Era, seen.Kind, seen.Status, seen.Error)
	}
	if got := text(t, seen.Result); got != longDone {
		t.Errorf("result: %q, want %q", got, longDone)
	}
}

func typescriptLegacy(t *testing.T, name, url, tool string, args arguments) seen {
	t.Helper()
	var s struct {
		seen
		Session bool
	}
	parse(t, runDriver(t, "legacyclient.mjs", name, url, tool, marshal(t, args)), &s)
	if !s.Session {
		t.Error("it had no session")
	}
	return s.seen
}

// mcpRemote speaks stdio to a host and to the gateway what opens with initialize.
func mcpRemote(t *testing.T, url string) mcp.Transport {
	t.Helper()
	cmd := exec.Command(mcptest.Node(t), mcptest.NPMFile(t, "mcp-remote", "dist", "proxy.js"), url, "--transport", "http-only", "--allow-http")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	return &mcp.CommandTransport{Command: cmd}
}

func goSDKLegacy(t *testing.T, tr mcp.Transport, tool string, args arguments) seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var questions, progress atomic.Int64
	c := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "0"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			questions.Add(1)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann", "check": true}}, nil
		},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress.Add(1) },
	})
	s, err := c.Connect(ctx, tr, &mcp.ClientSessionOptions{ProtocolVersion: wire.LegacyVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	params.SetProgressToken("p")
	r, err := s.CallTool(ctx, params)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return seen{s.InitializeResult().ProtocolVersion, int(questions.Load()), int(progress.Load()), wire.Raw(marshal(t, r))}
}

// mcpGoAnswers answers every question.
type mcpGoAnswers struct{ questions atomic.Int64 }

func (h *mcpGoAnswers) Elicit(context.Context, mcpgo.ElicitationRequest) (*mcpgo.ElicitationResult, error) {
	h.questions.Add(1)
	return &mcpgo.ElicitationResult{ElicitationResponse: mcpgo.ElicitationResponse{
		Action: mcpgo.ElicitationResponseActionAccept, Content: map[string]any{"name": "Ann", "check": true}}}, nil
}

func mcpGoLegacy(t *testing.T, url, tool string, args arguments) seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tr, err := transport.NewStreamableHTTP(url)
	if err != nil {
		t.Fatal(err)
	}
	answers, progress := &mcpGoAnswers{}, atomic.Int64{}
	//lint:ignore SA1019 it is the older protocol that is tried here
	c := mcpgoclient.NewClient(tr, mcpgoclient.WithElicitationHandler(answers), mcpgoclient.WithLegacyProtocolOnly())
	defer c.Close()
	c.OnNotification(func(n mcpgo.JSONRPCNotification) {
		if n.Method == "notifications/progress" {
			progress.Add(1)
		}
	})
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Initialize(ctx, mcpgo.InitializeRequest{Params: mcpgo.InitializeParams{
		ProtocolVersion: wire.LegacyVersion, ClientInfo: mcpgo.Implementation{Name: "mcp-go", Version: "0"}}}); err != nil {
		t.Fatal(err)
	}
	request := mcpgo.CallToolRequest{Params: mcpgo.CallToolParams{Name: tool, Arguments: map[string]any(args)}}
	request.Params.Meta = &mcpgo.Meta{ProgressToken: "p"}
	r, err := c.CallTool(ctx, request)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return seen{c.ProtocolVersion(), int(answers.questions.Load()), int(progress.Load()), wire.Raw(marshal(t, r))}
}
