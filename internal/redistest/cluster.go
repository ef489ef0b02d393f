package redistest

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Cluster is three masters without replicas.
type Cluster struct {
	Masters []*Server
}

// StartCluster runs a cluster; it ends with t.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	create := []string{"--cluster", "create"}
	for range 3 {
		s := Start(t, append([]string{"--cluster-enabled", "yes"}, args...)...)
		c.Masters = append(c.Masters, s)
		create = append(create, s.Addr)
	}
	out, err := exec.CommandContext(t.Context(), look(t, "redis-cli"), append(create, "--cluster-yes")...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli --cluster create: %v: %s", err, out)
	}
	for _, s := range c.Masters {
		c.await(t, s)
	}
	return c
}

// await waits until s knows of the whole cluster.
func (c *Cluster) await(t testing.TB, s *Server) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if strings.Contains(s.CLI(t, "cluster", "info"), "cluster_state:ok") {
			return
		}
	}
	t.Fatalf("the cluster is not ready after %v", patience)
}

// Move takes so many slots from the first master to the second.
func (c *Cluster) Move(t testing.TB, slots int) {
	t.Helper()
	from, to := c.Masters[0], c.Masters[1]
	from.CLI(t, "--cluster", "reshard", from.Addr, "--cluster-from", from.CLI(t, "cluster", "myid"),
		"--cluster-to", to.CLI(t, "cluster", "myid"), "--cluster-slots", strconv.Itoa(slots), "--cluster-yes")
}

// URL is the cluster's, as redisstore.Open takes it.
func (c *Cluster) URL() string {
	addrs := make([]string, len(c.Masters))
	for i, s := range c.Masters {
		addrs[i] = s.Addr
	}
	return "redis://" + strings.Join(addrs, ",")
}
