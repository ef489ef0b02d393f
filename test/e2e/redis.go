package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"testing"
)

// Redis is a real redis-server of the test's own.
type Redis struct {
	*Process
	// URL is what --store takes.
	URL string

	command func() *exec.Cmd
}

// StartRedis starts a server that keeps what it has acknowledged.
func StartRedis(t testing.TB) *Redis {
	t.Helper()
	port, dir := FreePort(t), t.TempDir()
	r := &Redis{URL: fmt.Sprintf("redis://127.0.0.1:%d/0", port)}
	r.command = func() *exec.Cmd {
		return exec.Command("redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
			"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction")
	}
	r.Restart(t)
	return r
}

// Restart starts the server again with the data it had. It must have been killed
// before.
func (r *Redis) Restart(t testing.TB) {
	t.Helper()
	cmd := r.command()
	addr := net.JoinHostPort("127.0.0.1", cmd.Args[4])
	r.Process = StartProcess(t, cmd)
	Eventually(t, "redis-server answers", func() bool {
		if !r.Alive() {
			t.Fatal("redis-server has ended before it answered")
		}
		return ping(addr)
	})
}

// ping tells whether a Redis at addr takes commands, which it does only once it
// has read its data.
func ping(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer := make([]byte, len("+PONG"))
	_, err = conn.Read(answer)
	return err == nil && string(answer) == "+PONG"
}
