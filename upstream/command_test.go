package upstream

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// everythingOnStdio starts nothing yet: the connector does.
func everythingOnStdio(t *testing.T, o CommandOptions) *Command {
	t.Helper()
	o.Name = "everything"
	o.Command = []string{"node", mcptest.NPMFile(t, "@modelcontextprotocol", "server-everything", "dist", "index.js"), "stdio"}
	c, err := NewCommand(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestEverythingOnStdio(t *testing.T) {
	c := everythingOnStdio(t, CommandOptions{})
	info, err := c.Info(t.Context())
	if err != nil || !strings.Contains(string(info.Capabilities), "tools") || !info.Deaf {
		t.Fatalf("info %+v, %v", info, err)
	}
	h := &recorder{}
	r := toolCall(7, "trigger-long-running-operation", `{"duration":0.4,"steps":2}`)
	reply, err := c.Call(t.Context(), r, h)
	if err != nil || !strings.Contains(string(reply.Result), "completed") {
		t.Fatalf("reply %s %s, %v", reply.Result, reply.Error, err)
	}
	r = toolCall(8, "echo", `{"message":"9007199254740993 \u00e9"}`)
	if reply, err = c.Call(t.Context(), r, h); err != nil || !strings.Contains(string(reply.Result), "9007199254740993 é") {
		t.Errorf("reply %s, %v", reply.Result, err)
	}
}

func TestAQuestionOnStdioReachesItsCall(t *testing.T) {
	c := everythingOnStdio(t, CommandOptions{})
	h := &recorder{ask: func(context.Context, string, wire.Raw) (wire.Raw, *wire.Error) {
		return wire.Raw(`{"action":"accept","content":{"name":"Ann","check":true}}`), nil
	}}
	r := toolCall(1, "trigger-elicitation-request", `{}`)
	r.Capabilities = wire.ParseCapabilities(wire.Raw(`{"elicitation":{"form":{}}}`))
	reply, err := c.Call(t.Context(), r, h)
	if err != nil || !strings.Contains(string(reply.Result), "Ann") {
		t.Errorf("reply %s %s, %v", reply.Result, reply.Error, err)
	}
}

// server-everything never answers a cancelled call; the next one gets a process
// that has nothing to do with it.
func TestACancelledProcessIsNotUsedAgain(t *testing.T) {
	c := everythingOnStdio(t, CommandOptions{CancelTimeout: 100 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	h := &recorder{}
	done := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, toolCall(1, "trigger-long-running-operation", `{"duration":60,"steps":60}`), h)
		done <- err
	}()
	mcptest.Eventually(t, time.Minute, "the process runs", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.count == 1
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	check(t, "processes", c.count, 0)
	if reply, err := c.Call(t.Context(), toolCall(2, "echo", `{"message":"again"}`), h); err != nil || reply.Result == nil {
		t.Errorf("reply %s, %v", reply.Error, err)
	}
}

func TestProgramsThatAreNoServers(t *testing.T) {
	missing, err := NewCommand(CommandOptions{Command: []string{filepath.Join(t.TempDir(), "none")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := missing.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{}); !isKind(err, Unreachable) {
		t.Errorf("a missing program: %v", err)
	}
	script := filepath.Join(t.TempDir(), "ends")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nread line\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ends, err := NewCommand(CommandOptions{Command: []string{script}, CancelTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var e *Error
	if _, err := ends.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{}); !errors.As(err, &e) || e.MayHaveRun {
		t.Errorf("a program that ends: %v", err)
	}
	check(t, "processes", ends.count, 0)
	if _, err := NewCommand(CommandOptions{}); err == nil {
		t.Error("an empty command was taken")
	}
}
