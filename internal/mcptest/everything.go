package mcptest

import (
	"bytes"
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

//go:embed loopback.cjs
var loopback []byte

// Process runs @modelcontextprotocol/server-everything, a real legacy server that
// nobody of this project wrote.
type Process struct {
	URL string // of the MCP endpoint; for sse of the event stream

	t       testing.TB
	mode    string
	port    string
	preload string
	cmd     *exec.Cmd
	exited  chan struct{}
	output  *lockedBuffer
}

// Everything starts server-everything in the mode "streamableHttp" or "sse" on
// a free port of 127.0.0.1, waits until it listens, and kills it at the end of
// the test.
func Everything(t testing.TB, mode string) *Process {
	t.Helper()
	path := map[string]string{"streamableHttp": "/mcp", "sse": "/sse"}[mode]
	if path == "" {
		t.Fatalf("mode is streamableHttp or sse, not %q", mode)
	}
	p := &Process{t: t, mode: mode, port: freePort(t), preload: Loopback(t)}
	p.URL = "http://127.0.0.1:" + p.port + path
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// Loopback writes the script that keeps a Node server on 127.0.0.1 when it is
// loaded first (node -r), and returns its path.
func Loopback(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "loopback.cjs")
	if err := os.WriteFile(file, loopback, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// freePort finds a port that nobody listens on. Somebody may take it before its
// user does; Start then fails, because the process cannot listen.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// Start starts the process (again), on the same port.
func (p *Process) Start() {
	p.t.Helper()
	p.output = &lockedBuffer{}
	p.cmd = exec.Command(Node(p.t), "-r", p.preload,
		NPMFile(p.t, "@modelcontextprotocol", "server-everything", "dist", "index.js"), p.mode)
	p.cmd.Env = append(os.Environ(), "PORT="+p.port)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = p.cmd.Wait() // killed, mostly
		close(exited)
	}()
	p.exited = exited
	Eventually(p.t, 20*time.Second, fmt.Sprintf("server-everything %s on port %s", p.mode, p.port), p.ready)
}

// ready waits for the process's own word, because another process may listen
// on the port, and for the port.
func (p *Process) ready() bool {
	select {
	case <-p.exited:
		p.t.Fatalf("server-everything ended: %s", p.output)
	default:
	}
	return strings.Contains(p.Output(), "on port "+p.port) && p.listens()
}

func (p *Process) listens() bool {
	conn, err := net.Dial("tcp", "127.0.0.1:"+p.port)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output is what the process has written so far.
func (p *Process) Output() string { return p.output.String() }

// Kill ends the process at once and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.exited
}

// lockedBuffer may be read while a process writes it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
