package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"taskgate/internal/mcptest"
)

// client is a row of the table; take leads it through a plan.
type client struct {
	name string
	take func(ctx context.Context, url string, p plan) ([]Step, error)
}

func clients(t *testing.T) []client {
	n := node{mcptest.Node(t), mcptest.Scripts(t, "testdata", "../e2e/testdata"), t.TempDir()}
	return []client{
		{"TypeScript client 2.4.0", n.script("typescript.mjs", "legacy")},
		{"TypeScript client 2.4.0, 2026-07-28", n.script("typescript.mjs", "modern")},
		{"TypeScript SDK 1.32.2", n.script("typescript.mjs", "sdk")},
		{"ext-tasks 0.2.2", n.script("tasks.mjs", "legacy")},
		{"ext-tasks 0.2.2, 2026-07-28", n.script("tasks.mjs", "modern")},
		{"mcp-remote 0.15.1", n.script("typescript.mjs", "mcp-remote")},
		{"Inspector CLI 2.12.0", n.inspector("legacy")},
		{"Inspector CLI 2.12.0, 2026-07-28", n.inspector("modern")},
		{"mcpdo 2.12.0", n.mcpdo("legacy")},
		{"mcpdo 2.12.0, 2026-07-28", n.mcpdo("modern")},
		{"go-sdk 1.8.0", goSDK("2025-11-25")},
		{"go-sdk 1.8.0, 2026-07-28", goSDK("2026-07-28")},
		{"mcp-go 1.2.1", mcpGo("2025-11-25")},
		{"mcp-go 1.2.1, 2026-07-28", mcpGo("2026-07-28")},
	}
}

// node runs scripts that print a line for each step.
type node struct{ program, scripts, homes string }

func (n node) run(ctx context.Context, script string, args ...string) ([]byte, error) {
	home, err := os.MkdirTemp(n.homes, "") // of its own: some keep locks there
	if err != nil {
		return nil, err
	}
	return n.runIn(ctx, home, script, args...)
}

func (n node) runIn(ctx context.Context, home, script string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, n.program, append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+home, "MCP_INSPECTOR_SECRET_STORE=file")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w\n%s", filepath.Base(script), err, stderr.Bytes())
	}
	return out, nil
}

func (n node) script(name, client string) func(context.Context, string, plan) ([]Step, error) {
	return func(ctx context.Context, url string, p plan) ([]Step, error) {
		text, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		out, ended := n.run(ctx, filepath.Join(n.scripts, name), client, url, string(text))
		var said []Step
		for line := range bytes.Lines(out) {
			var s Step
			if err := json.Unmarshal(line, &s); err != nil {
				return said, fmt.Errorf("%s printed %q: %w", name, line, err)
			}
			said = append(said, s)
		}
		return said, ended
	}
}

// inspectorScript is one of the programs of the Inspector's package.
func (n node) inspectorScript(client, name string) string {
	return filepath.Join(n.scripts, "node_modules", "@modelcontextprotocol", "inspector", "clients", client, "build", name)
}

// mcpdo keeps its connection in a daemon, which is of its home; it cannot cancel.
func (n node) mcpdo(era string) func(context.Context, string, plan) ([]Step, error) {
	script := n.inspectorScript("mcpdo", "mcp-bin.js")
	return func(ctx context.Context, url string, p plan) ([]Step, error) {
		home, err := os.MkdirTemp(n.homes, "")
		if err != nil {
			return nil, err
		}
		do := func(args ...string) ([]byte, error) { return n.runIn(ctx, home, script, args...) }
		on := func(args ...string) ([]byte, error) {
			return do(append([]string{"--connection", url, "--format", "json"}, args...)...)
		}
		call := func(u use) ([]byte, error) {
			return on(append([]string{"tools/call", u.Tool}, fields(u.Arguments)...)...)
		}
		said := taker{
			connect: func() error { _, err := do("connect", url, "--era", era, "--transport", "http"); return err },
			list: func() error {
				out, err := on("tools/list")
				return contains(string(out), p["call"].Tool, err)
			},
			call: func(u use) error {
				out, err := call(u)
				return contains(string(out), u.Want, err)
			},
			question: func(u use) error {
				out, err := call(u)
				var pending struct {
					ElicitationPending struct{ ElicitationID string }
				}
				if err == nil {
					err = json.Unmarshal(out, &pending)
				}
				if err == nil {
					out, err = on(append([]string{"elicitation/respond", pending.ElicitationPending.ElicitationID}, fields(u.Answer)...)...)
				}
				return contains(string(out), u.Want, err)
			},
		}.take(p)
		_, err = do("daemon", "stop")
		return said, err
	}
}

// fields are values as mcpdo takes them.
func fields(values map[string]any) []string {
	var args []string
	for name, value := range values {
		text, _ := json.Marshal(value) // of a plan
		args = append(args, name+":="+string(text))
	}
	return args
}

// inspector is one process for each step; it cannot be asked, and cannot cancel.
func (n node) inspector(era string) func(context.Context, string, plan) ([]Step, error) {
	launcher := n.inspectorScript("launcher", "index.js")
	return func(ctx context.Context, url string, p plan) ([]Step, error) {
		cli := func(want string, more ...string) error {
			out, err := n.run(ctx, launcher, append([]string{"--cli", "--transport", "http", "--server-url", url,
				"--protocol-era", era, "--format", "json"}, more...)...)
			return contains(string(out), want, err)
		}
		call := func(u use) error {
			args := []string{"--method", "tools/call", "--tool-name", u.Tool}
			for name, value := range u.Arguments {
				args = append(args, "--tool-arg", fmt.Sprintf("%s=%v", name, value))
			}
			return cli(u.Want, args...)
		}
		return taker{
			connect: func() error { return nil }, // by each process
			list:    func() error { return cli(p["call"].Tool, "--method", "tools/list") },
			call:    call,
		}.take(p), nil
	}
}
