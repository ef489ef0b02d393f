// Package demo shows the gateway at work: a sample server that knows no tasks,
// a gateway in a process of its own before it, and a scripted client that tells
// each step on the wire in plain words.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// Options of a demonstration.
type Options struct {
	// Gateway is the program that serves, with its first arguments; the demo
	// adds the flags of the command serve.
	Gateway []string
	// Out is where the story is told.
	Out io.Writer
	// Once ends the demo with the story; else the gateway serves on.
	Once bool
	// Fast shortens all times, for tests.
	Fast bool
}

// pace is how long each of the eight parts of a report takes.
func (o Options) pace() time.Duration {
	if o.Fast {
		return 100 * time.Millisecond
	}
	return time.Second
}

// fastPolicy goes with a fast report; else the built-in policy holds.
const fastPolicy = `defaults: {promoteAfter: 150ms, pollInterval: 50ms}
`

// Run gives the demonstration. It returns nil when the story has come to its
// end, or when ctx ends, which is how a user leaves. Before that it ends the
// process that it has started and removes what it has stored. Any other error
// says which step did not go as it should.
func Run(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "taskgate-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer os.RemoveAll(dir)
	server, err := startSample(o.pace())
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer server.close()
	read, unread := context.WithCancelCause(ctx)
	defer unread(nil)
	s := &story{screen: newScreen(o.Out, unread), options: o, dir: dir, server: server}
	err = s.tell(read)
	if s.gateway != nil {
		s.gateway.close()
	}
	switch {
	case ctx.Err() != nil:
		s.screen.line("\nStopped. What the demo had stored is removed.")
		return nil
	case read.Err() != nil:
		return fmt.Errorf("demo: %w", context.Cause(read))
	case err != nil:
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// storyTimeout is far more than the story takes.
const storyTimeout = 2 * time.Minute

// story is the script and what it has come to so far.
type story struct {
	screen  *screen
	options Options
	dir     string
	server  *sample
	gateway *gateway
	client  *client

	report finished // of the first report
}

// tell plays the parts in order and serves on afterwards.
func (s *story) tell(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, storyTimeout, errors.New("the story takes too long"))
	defer cancel()
	for _, part := range []func(context.Context) error{s.quickTool, s.slowTool, s.crash} {
		if err := part(bounded); err != nil {
			return err
		}
	}
	if s.options.Once {
		s.screen.line("\nThat is all. What the demo had stored is removed.")
		return nil
	}
	return s.serveOn(ctx)
}

// open starts the gateway and says who plays.
func (s *story) open(ctx context.Context) error {
	s.screen.title("A slow tool on a server that knows no tasks becomes a durable task.\n")
	if err := s.start(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	s.client = &client{url: s.gateway.endpoint, http: &http.Client{}}
	s.screen.fact("sample server", s.server.url+"   MCP 2025-11-25: sessions, one answer per call")
	s.screen.fact("gateway", fmt.Sprintf("%s   MCP 2026-07-28 with tasks; process %d", s.gateway.endpoint, s.gateway.pid()))
	s.screen.fact("store", filepath.Base(s.store())+", in a folder that is removed at the end")
	return nil
}

func (s *story) store() string { return filepath.Join(s.dir, "taskgate.db") }

// start starts the gateway at an address. The store is all that it shares with
// one that ran before.
func (s *story) start(ctx context.Context, listen string) (err error) {
	flags := []string{"--listen", listen, "--admin-listen", "127.0.0.1:0", "--upstream", s.server.url, "--store", s.store()}
	if s.options.Fast {
		policy := filepath.Join(s.dir, "policy.yaml")
		if err := os.WriteFile(policy, []byte(fastPolicy), 0o600); err != nil {
			return err
		}
		flags = append(flags, "--policy", policy)
	}
	s.gateway, err = startGateway(ctx, s.options.Gateway, flags...)
	return err
}

// address is where the gateway listens, for its successor.
func (s *story) address() (string, error) {
	u, err := url.Parse(s.gateway.endpoint)
	if err != nil {
		return "", fmt.Errorf("endpoint of the gateway: %w", err)
	}
	return u.Host, nil
}

// serveOn lets others try the gateway until ctx ends.
func (s *story) serveOn(ctx context.Context) error {
	s.screen.step(5, "Now you")
	s.screen.line("   The gateway serves until you press Ctrl-C. Health and metrics: " + s.gateway.admin)
	s.screen.line("")
	s.screen.line("   # the MCP Inspector: calls the tool, polls its task, prints the result")
	s.screen.line(inspectorCommand(s.gateway.endpoint))
	s.screen.line("")
	s.screen.line("   # curl: prints the handle of a task")
	s.screen.line(curlCommand(s.gateway.endpoint))
	select {
	case <-ctx.Done():
		return nil
	case <-s.gateway.ended:
		return s.gateway.failure()
	}
}
