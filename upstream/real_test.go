package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskgate/wire"
)

// everything is @modelcontextprotocol/server-everything, over Streamable HTTP.
type everything struct {
	t    *testing.T
	port string
	cmd  *exec.Cmd
}

func startEverything(t *testing.T) *everything {
	t.Helper()
	e := &everything{t: t, port: freePort(t)}
	e.start()
	t.Cleanup(func() { e.kill() })
	return e
}

func (e *everything) url() string { return "http://127.0.0.1:" + e.port + "/mcp" }

func (e *everything) start() {
	t := e.t
	t.Helper()
	modules := filepath.Join(os.Getenv("TASKGATE_NPM"), "node_modules")
	script := filepath.Join(modules, "@modelcontextprotocol", "server-everything", "dist", "index.js")
	if _, err := os.Stat(script); err != nil || os.Getenv("TASKGATE_NPM") == "" {
		t.Fatalf("server-everything is missing: run `make deps` and set TASKGATE_NPM to the folder that holds node_modules (%v)", err)
	}
	e.cmd = exec.Command("node", "-r", onlyLoopback(t), script, "streamableHttp")
	e.cmd.Env = append(os.Environ(), "PORT="+e.port)
	stderr, err := e.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "listening on port") {
			go func() { // the pipe must not fill up
				for lines.Scan() {
				}
			}()
			return
		}
	}
	t.Fatalf("server-everything ended before it listened: %v", e.cmd.Wait())
}

func (e *everything) kill() {
	e.cmd.Process.Kill()
	e.cmd.Wait()
}

// onlyLoopback is a script that makes a node server listen on loopback only.
func onlyLoopback(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "loopback.cjs")
	script := `const net = require('net'), listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  return typeof port === 'number' || typeof port === 'string'
    ? listen.call(this, Number(port), '127.0.0.1', ...rest.filter(a => typeof a === 'function'))
    : listen.call(this, port, ...rest);
};`
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func TestEverything(t *testing.T) {
	server := startEverything(t)
	h := connect(t, Options{URL: server.url()})

	t.Run("info", func(t *testing.T) {
		info, err := h.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check(t, "modern", info.Modern, false)
		if !strings.Contains(string(info.ServerInfo), "mcp-servers/everything") || info.Capabilities == nil {
			t.Errorf("info: %s %s", info.ServerInfo, info.Capabilities)
		}
	})

	t.Run("slow call with progress", func(t *testing.T) {
		rec := &recorder{}
		reply, err := h.Call(t.Context(), toolCall(10, "trigger-long-running-operation", `{"duration":0.3,"steps":3}`), rec)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reply.Result), "Long running operation completed") {
			t.Errorf("result: %s", reply.Result)
		}
		progress, _, _ := rec.seen()
		equal(t, "progress", progress, `{"progress":1,"total":3}`, `{"progress":2,"total":3}`, `{"progress":3,"total":3}`)
	})

	t.Run("elicitation", func(t *testing.T) {
		rec := &recorder{ask: func(context.Context, string, wire.Raw) (wire.Raw, *wire.Error) {
			return wire.Raw(`{"action":"accept","content":{"name":"Ann","check":true}}`), nil
		}}
		reply, err := h.Call(t.Context(), toolCall(11, "trigger-elicitation-request", `{}`), rec)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reply.Result), "Ann") {
			t.Errorf("result: %s", reply.Result)
		}
		_, _, asked := rec.seen()
		equal(t, "asked", asked, "elicitation/create")
	})

	t.Run("sampling", func(t *testing.T) {
		rec := &recorder{ask: func(context.Context, string, wire.Raw) (wire.Raw, *wire.Error) {
			return wire.Raw(`{"role":"assistant","model":"m","content":{"type":"text","text":"poem-7"},"stopReason":"endTurn"}`), nil
		}}
		reply, err := h.Call(t.Context(), toolCall(12, "trigger-sampling-request", `{"prompt":"hi","maxTokens":20}`), rec)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reply.Result), "poem-7") {
			t.Errorf("result: %s", reply.Result)
		}
	})

	t.Run("what was not declared is not offered", func(t *testing.T) {
		r := toolCall(13, "trigger-elicitation-request", `{}`)
		r.Capabilities = wire.ParseCapabilities(nil)
		reply, err := h.Call(t.Context(), r, &recorder{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reply.Result), "not found") {
			t.Errorf("result: %s", reply.Result)
		}
	})

	t.Run("cancel, which it never answers", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		rec := &recorder{}
		done := make(chan error, 1)
		go func() {
			_, err := h.Call(ctx, toolCall(14, "trigger-long-running-operation", `{"duration":60,"steps":600}`), rec)
			done <- err
		}()
		eventually(t, "progress", func() bool { p, _, _ := rec.seen(); return len(p) > 0 })
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error: %v", err)
			}
		case <-time.After(deadline):
			t.Fatal("still waiting for an answer")
		}
	})

	t.Run("session lost and regained", func(t *testing.T) {
		server.kill()
		_, err := h.Call(t.Context(), toolCall(15, "echo", `{"message":"x"}`), &recorder{})
		var e *Error
		if !errors.As(err, &e) || e.Kind != Unreachable || e.MayHaveRun {
			t.Fatalf("while down: %v", err)
		}
		server.start()
		reply, err := h.Call(t.Context(), toolCall(16, "echo", `{"message":"back"}`), &recorder{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reply.Result), "back") {
			t.Errorf("result: %s", reply.Result)
		}
	})
}

func TestEverythingSessionsEndOnClose(t *testing.T) {
	server := startEverything(t)
	h, err := NewHTTP(Options{Name: "test", URL: server.url()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Call(t.Context(), toolCall(1, "echo", `{"message":"x"}`), &recorder{}); err != nil {
		t.Fatal(err)
	}
	var session string
	for _, s := range h.sessions.sessions {
		session = s.id
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	body := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	req, _ := http.NewRequest(http.MethodPost, server.url(), strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if session == "" || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("session %q after Close: HTTP %d, want it to be unknown (400)", session, resp.StatusCode)
	}
	_, err = h.Call(t.Context(), toolCall(3, "echo", `{}`), &recorder{})
	if !isKind(err, Closed) {
		t.Errorf("call after Close: %v", err)
	}
}
