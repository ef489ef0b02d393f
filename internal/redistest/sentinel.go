package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// masterName is what the Sentinel calls its master.
const masterName = "tasks"

// Sentinel watches a master and puts its replica in its place.
type Sentinel struct{ *Server }

// StartReplica runs a replica of master; it ends with t.
func StartReplica(t testing.TB, master *Server) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	return Start(t, "--replicaof", host+" "+port)
}

// StartSentinel runs a Sentinel that takes master for dead after half a second;
// it ends with t.
func StartSentinel(t testing.TB, master *Server) Sentinel {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	s := &Server{dir: t.TempDir()}
	file := filepath.Join(s.dir, "sentinel.conf") // which the Sentinel rewrites
	config := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 1\nsentinel down-after-milliseconds %[1]s 500\n", masterName, host, port)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{file, "--sentinel"}
	s.start(t)
	return Sentinel{s}
}

// URL is the way to the master, as redisstore.Open takes it.
func (s Sentinel) URL() string { return s.Server.URL() + "/0?master=" + masterName }
