package mcptest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdioArgument makes a test program a server on stdio instead.
const stdioArgument = "mcp-server-on-stdio"

// OnStdio returns the command of a server of the Go SDK on stdio, which speaks both
// eras. It is the test's own program, whose TestMain has to call MainOnStdio. Flags:
//
//	-dies        writes a line to stderr and ends with status 3
//	-stays       ends neither with its input nor by SIGTERM
//	-descends=F  starts a process that would outlive it, and writes its id to the file F
//	-silent      answers nothing
//	-late=1s     begins to read only then
func OnStdio(t testing.TB, flags ...string) []string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{program, stdioArgument}, flags...)
}

// MainOnStdio serves and exits when the program was started as OnStdio says, else
// it does nothing.
func MainOnStdio() {
	if len(os.Args) > 1 && os.Args[1] == stdioArgument {
		os.Exit(serveStdio(os.Args[2:]))
	}
}

func serveStdio(args []string) int {
	flags := flag.NewFlagSet(stdioArgument, flag.ContinueOnError)
	dies, stays, silent := flags.Bool("dies", false, ""), flags.Bool("stays", false, ""), flags.Bool("silent", false, "")
	late := flags.Duration("late", 0, "")
	descendant := flags.String("descends", "", "file for the id of a descendant")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *descendant != "" {
		if err := descend(*descendant); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	switch {
	case *dies:
		fmt.Fprintln(os.Stderr, "secret of the server")
		return 3
	case *stays:
		signal.Ignore(syscall.SIGTERM)
		defer func() { select {} }()
	case *silent:
		ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		<-ended.Done()
		return 0
	}
	<-time.After(*late)
	transport := &mcp.StdioTransport{MaxLineLength: -1}
	if err := Server(nil).Run(context.Background(), transport); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// descend starts a process in the same process group that has all streams too.
func descend(file string) error {
	c := exec.Command("sleep", "300")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(c.Process.Pid)), 0o600)
}

type stdioArguments struct {
	Text   string `json:"text,omitempty"`
	Repeat int    `json:"repeat,omitempty"`
}

// Server is a server of the Go SDK with the tools echo, pid, wait (until it is
// cancelled or release is closed), ask, exit and grow, which adds a tool.
func Server(release <-chan struct{}) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "on-stdio", Version: "1"}, nil)
	tool := func(name string, f func(context.Context, *mcp.CallToolRequest, stdioArguments) (*mcp.CallToolResult, error)) {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(ctx context.Context, r *mcp.CallToolRequest, a stdioArguments) (*mcp.CallToolResult, any, error) {
			result, err := f(ctx, r, a)
			return result, nil, err
		})
	}
	tool("echo", func(_ context.Context, _ *mcp.CallToolRequest, a stdioArguments) (*mcp.CallToolResult, error) {
		return text(strings.Repeat(a.Text, max(a.Repeat, 1))), nil
	})
	tool("pid", func(context.Context, *mcp.CallToolRequest, stdioArguments) (*mcp.CallToolResult, error) {
		return text(strconv.Itoa(os.Getpid())), nil
	})
	tool("wait", func(ctx context.Context, r *mcp.CallToolRequest, _ stdioArguments) (*mcp.CallToolResult, error) {
		notifyProgress(ctx, r)
		select {
		case <-release:
			return text("released"), nil
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "wait was cancelled")
			return nil, ctx.Err()
		}
	})
	tool("ask", askOnStdio)
	tool("exit", func(ctx context.Context, r *mcp.CallToolRequest, _ stdioArguments) (*mcp.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "secret of the server")
		os.Exit(3)
		return nil, nil
	})
	tool("grow", func(_ context.Context, _ *mcp.CallToolRequest, a stdioArguments) (*mcp.CallToolResult, error) {
		tool(a.Text, func(context.Context, *mcp.CallToolRequest, stdioArguments) (*mcp.CallToolResult, error) {
			return text("new"), nil
		})
		return text("grown"), nil
	})
	return server
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func notifyProgress(ctx context.Context, r *mcp.CallToolRequest) {
	_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1}) // who is gone hears of none
}

// askOnStdio asks for a name, in the way of the era: the SDK makes a request of it
// for a legacy client. It takes its time, so that calls overlap.
func askOnStdio(ctx context.Context, r *mcp.CallToolRequest, a stdioArguments) (*mcp.CallToolResult, error) {
	if answer, ok := r.Params.InputResponses["name"].(*mcp.ElicitResult); ok {
		return text(fmt.Sprint(a.Text, " ", answer.Action, " ", answer.Content["name"])), nil
	}
	notifyProgress(ctx, r)
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"name": &mcp.ElicitParams{Message: "name of " + a.Text}}}, nil
}
