// Package redistest runs real redis-servers for tests: one, which may be killed
// and started again, one behind a Sentinel, or a cluster of three masters. A test
// fails when there is no redis-server to run.
package redistest

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a server may take for what should take milliseconds.
const patience = 30 * time.Second

// Server is one redis-server of a test's own.
type Server struct {
	Addr string // host:port

	dir    string
	args   []string
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
}

// Start runs a redis-server that appends to a file each second, in a directory
// of t's own, with further arguments (as "--maxmemory", "20mb"). It ends with t.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{dir: t.TempDir()}
	s.args = append([]string{"--appendonly", "yes", "--appendfsync", "everysec", "--save", ""}, args...)
	s.start(t)
	return s
}

// start runs the server on a port of its own until t ends.
func (s *Server) start(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("redis-server %s:\n%s", s.Addr, s.tail())
		}
	})
	// The port is free when it is chosen, but somebody may be faster.
	for range 10 {
		s.Addr = freeAddr(t)
		if s.run(t) {
			return
		}
		s.stop()
	}
	t.Fatalf("redis-server does not start:\n%s", s.tail())
}

// URL is the server's, as redisstore.Open takes it.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Kill ends the server at once (kill -9).
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill redis-server: %v", err)
	}
	<-s.exited
}

// Restart starts a killed server again, on the same port and data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if !s.run(t) {
		t.Fatalf("redis-server does not start again:\n%s", s.tail())
	}
}

// Signal sends the server a signal, as SIGSTOP and SIGCONT.
func (s *Server) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("signal redis-server: %v", err)
	}
}

// CLI runs redis-cli against the server and returns what it prints.
func (s *Server) CLI(t testing.TB, args ...string) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(s.Addr)
	cmd := exec.CommandContext(t.Context(), look(t, "redis-cli"), append([]string{"-p", port}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Fill sets maxmemory so that percent of it are used.
func (s *Server) Fill(t testing.TB, percent int) {
	t.Helper()
	_, rest, _ := strings.Cut(s.CLI(t, "info", "memory"), "used_memory:")
	text, _, _ := strings.Cut(rest, "\r")
	used, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	s.CLI(t, "config", "set", "maxmemory", strconv.Itoa(used*100/percent))
}

// run starts the process and waits until it answers; false: it has ended, or
// another server has the port.
func (s *Server) run(t testing.TB) bool {
	t.Helper()
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	_, port, _ := net.SplitHostPort(s.Addr)
	args := append(slices.Clone(s.args), "--bind", "127.0.0.1", "--port", port, "--dir", s.dir)
	s.cmd, s.exited = exec.Command(look(t, "redis-server"), args...), make(chan struct{})
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = log, log, withParent()
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // how it ended is in its log
		close(exited)
	}(s.cmd, s.exited)
	return s.await()
}

func (s *Server) await() bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-s.exited:
			return false
		case <-tick.C:
			if answers(s.Addr) {
				return true
			}
		}
	}
	return false
}

func (s *Server) stop() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.exited
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis-server.log") }

// tail is the end of the server's log.
func (s *Server) tail() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// answers tells whether a Redis at addr serves commands: not while it loads.
func answers(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(time.Second)) != nil {
		return false
	}
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && line == "+PONG\r\n"
}

// freeAddr is a loopback address below the ports that the system gives to
// outgoing connections, with room for a cluster's bus port 10000 above.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(12_000)
		if isFree(port) && isFree(port+10_000) {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	t.Fatal("no free port for redis-server")
	return ""
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func look(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s is not installed; \"make deps\" installs what the tests need: %v", program, err)
	}
	return path
}
