package matrix

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"taskgate/wire"
)

// taker are the steps of a client in Go; it cannot do those that it has not.
type taker struct {
	connect, list          func() error
	call, question, cancel func(use) error
}

func (c taker) take(p plan) []Step {
	said := []Step{outcome("connect", c.connect()), outcome("list", c.list())}
	for _, step := range Steps[2:] {
		do := map[string]func(use) error{"call": c.call, "slow": c.call, "question": c.question, "cancel": c.cancel}[step]
		if u, ok := p[step]; ok && do != nil {
			said = append(said, outcome(step, do(u)))
		}
	}
	return said
}

func outcome(step string, err error) Step {
	if err != nil {
		return Step{step, false, err.Error()}
	}
	return Step{step, true, ""}
}

func contains(all, part string, err error) error {
	if err == nil && !strings.Contains(all, part) {
		err = fmt.Errorf("%q is not in %q", part, all)
	}
	return err
}

// once wants the call to have asked one question.
func once(questions *atomic.Int64, call func(use) error) func(use) error {
	return func(u use) error {
		if err := call(u); err != nil {
			return err
		}
		if n := questions.Load(); n != 1 {
			return fmt.Errorf("%d questions", n)
		}
		return nil
	}
}

// cancelled gives a call a context that ends with the first progress; the call
// must end with it. How a client then words its error is its own affair: mcp-go
// reports the cancelled context or the stream that ended with it, by chance.
func cancelled(ctx context.Context, progress <-chan struct{}, call func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-progress:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := call(ctx); err == nil || ctx.Err() == nil {
		return fmt.Errorf("the call ended with %v before it was cancelled", err)
	}
	return nil
}

// hint never waits.
func hint(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func goSDK(version string) func(context.Context, string, plan) ([]Step, error) {
	return func(ctx context.Context, url string, p plan) ([]Step, error) {
		questions, progress := atomic.Int64{}, make(chan struct{}, 1)
		c := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "0"}, &mcp.ClientOptions{
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				questions.Add(1)
				// The SDK writes the defaults of the question into what it is given.
				return &mcp.ElicitResult{Action: "accept", Content: maps.Clone(p["question"].Answer)}, nil
			},
			ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { hint(progress) },
		})
		s, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			return nil, err
		}
		defer s.Close()
		call := func(u use) error {
			r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: u.Tool, Arguments: u.Arguments})
			if err != nil {
				return err
			}
			return contains(r.Content[0].(*mcp.TextContent).Text, u.Want, nil)
		}
		return taker{
			connect: func() error { return contains(s.InitializeResult().ProtocolVersion, version, nil) },
			list: func() error {
				r, err := s.ListTools(ctx, nil)
				if err != nil {
					return err
				}
				if !slices.ContainsFunc(r.Tools, func(t *mcp.Tool) bool { return t.Name == p["call"].Tool }) {
					return fmt.Errorf("%s is not in the list", p["call"].Tool)
				}
				return nil
			},
			call:     call,
			question: once(&questions, call),
			cancel: func(u use) error {
				return cancelled(ctx, progress, func(ctx context.Context) error {
					params := &mcp.CallToolParams{Name: u.Tool, Arguments: u.Arguments}
					params.SetProgressToken("p")
					_, err := s.CallTool(ctx, params)
					return err
				})
			},
		}.take(p), nil
	}
}

// answers counts the questions that it answers.
type answers struct {
	answer    map[string]any
	questions atomic.Int64
}

func (a *answers) Elicit(context.Context, mcpgo.ElicitationRequest) (*mcpgo.ElicitationResult, error) {
	a.questions.Add(1)
	return &mcpgo.ElicitationResult{ElicitationResponse: mcpgo.ElicitationResponse{
		Action: mcpgo.ElicitationResponseActionAccept, Content: a.answer}}, nil
}

func mcpGo(version string) func(context.Context, string, plan) ([]Step, error) {
	return func(ctx context.Context, url string, p plan) ([]Step, error) {
		tr, err := transport.NewStreamableHTTP(url)
		if err != nil {
			return nil, err
		}
		asked, progress := &answers{answer: p["question"].Answer}, make(chan struct{}, 1)
		options := []mcpgoclient.ClientOption{mcpgoclient.WithElicitationHandler(asked)}
		if version == wire.LegacyVersion {
			//lint:ignore SA1019 it is the older protocol that is tried here
			options = append(options, mcpgoclient.WithLegacyProtocolOnly())
		}
		c := mcpgoclient.NewClient(tr, options...)
		defer c.Close()
		c.OnNotification(func(n mcpgo.JSONRPCNotification) {
			if n.Method == "notifications/progress" {
				hint(progress)
			}
		})
		tool := func(ctx context.Context, u use, meta *mcpgo.Meta) (*mcpgo.CallToolResult, error) {
			return c.CallTool(ctx, mcpgo.CallToolRequest{Params: mcpgo.CallToolParams{Name: u.Tool, Arguments: u.Arguments, Meta: meta}})
		}
		call := func(u use) error {
			r, err := tool(ctx, u, nil)
			if err != nil {
				return err
			}
			return contains(mcpgo.GetTextFromContent(r.Content[0]), u.Want, nil)
		}
		return taker{
			connect: func() error {
				if err := c.Start(ctx); err != nil {
					return err
				}
				_, err := c.Initialize(ctx, mcpgo.InitializeRequest{Params: mcpgo.InitializeParams{
					ProtocolVersion: version, ClientInfo: mcpgo.Implementation{Name: "mcp-go", Version: "0"}}})
				return contains(c.ProtocolVersion(), version, err)
			},
			list: func() error {
				r, err := c.ListTools(ctx, mcpgo.ListToolsRequest{})
				if err != nil {
					return err
				}
				if !slices.ContainsFunc(r.Tools, func(t mcpgo.Tool) bool { return t.Name == p["call"].Tool }) {
					return fmt.Errorf("%s is not in the list", p["call"].Tool)
				}
				return nil
			},
			call:     call,
			question: once(&asked.questions, call),
			cancel: func(u use) error {
				return cancelled(ctx, progress, func(ctx context.Context) error {
					_, err := tool(ctx, u, &mcpgo.Meta{ProgressToken: "p"})
					return err
				})
			},
		}.take(p), nil
	}
}
