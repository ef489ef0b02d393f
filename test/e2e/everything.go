package e2e

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// loopback.cjs makes a Node server that names no address listen on 127.0.0.1.
//
//go:embed testdata/loopback.cjs
var loopback []byte

// Everything is @modelcontextprotocol/server-everything, a legacy server.
type Everything struct {
	*Process
	URL string

	command func() *exec.Cmd
}

// StartEverything starts the server over Streamable HTTP.
func StartEverything(t testing.TB) *Everything {
	t.Helper()
	preload := filepath.Join(t.TempDir(), "loopback.cjs")
	if err := os.WriteFile(preload, loopback, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(Modules(t), "@modelcontextprotocol", "server-everything", "dist", "index.js")
	port := FreePort(t)
	e := &Everything{URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port)}
	e.command = func() *exec.Cmd {
		cmd := exec.Command(node(t), "-r", preload, program, "streamableHttp")
		cmd.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", port))
		return cmd
	}
	e.Restart(t)
	return e
}

// Restart starts the server again, on its port but without its sessions. It must
// have been killed before.
func (e *Everything) Restart(t testing.TB) {
	t.Helper()
	e.Process = StartProcess(t, e.command())
	e.WaitAnswer(t, e.URL)
}
