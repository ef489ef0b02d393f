package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskgate/bench/rig"
)

// lab has what several parts need, each started when it is first asked for.
type lab struct {
	opts    options
	dir     string
	running map[string]*rig.Process
	order   []*rig.Process // as they were started
}

func newLab(o options) (*lab, error) {
	dir, err := os.MkdirTemp("", "taskgate-bench-")
	if err != nil {
		return nil, err
	}
	return &lab{opts: o, dir: dir, running: map[string]*rig.Process{}}, nil
}

// close ends everything, the last first.
func (l *lab) close() error {
	for i := len(l.order) - 1; i >= 0; i-- {
		l.order[i].Stop()
	}
	return os.RemoveAll(l.dir)
}

// once starts a program unless it runs. command is given an address to listen on.
func (l *lab) once(name string, command func(addr string) (program string, args []string, err error)) (*rig.Process, error) {
	if p := l.running[name]; p != nil {
		return p, nil
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	program, args, err := command(addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p, err := rig.Start(l.dir, name, addr, program, args...)
	if err != nil {
		return nil, err
	}
	l.running[name], l.order = p, append(l.order, p)
	return p, nil
}

// stop ends a program that once has started.
func (l *lab) stop(name string) {
	p := l.running[name]
	p.Stop()
	delete(l.running, name)
	l.order = slices.DeleteFunc(l.order, func(other *rig.Process) bool { return other == p })
}

func (l *lab) backend() (*rig.Process, error) {
	return l.once("direct", func(addr string) (string, []string, error) { return l.program("backend"), []string{addr}, nil })
}

// redis is a server that appends each write to its file and syncs it once a
// second.
func (l *lab) redis() (*rig.Process, error) {
	return l.once("redis", func(addr string) (string, []string, error) {
		_, port, _ := strings.Cut(addr, ":")
		return "redis-server", []string{"--bind", "127.0.0.1", "--port", port, "--dir", l.dir, "--save", "",
			"--appendonly", "yes", "--appendfsync", "everysec"}, nil
	})
}

// gateway is the program with everything on, and Redis as its store. Gateways of
// several names share the store.
func (l *lab) gateway(name string) (*rig.Process, error) {
	redis, err := l.redis()
	if err != nil {
		return nil, err
	}
	backend, err := l.backend()
	if err != nil {
		return nil, err
	}
	return l.once(name, func(addr string) (string, []string, error) {
		config, err := l.configure(name, addr, "redis://"+redis.Addr, backend.Addr)
		return l.program("gateway"), []string{"serve", "--config", config}, err
	})
}

// ourGateway is the one that most parts measure.
func (l *lab) ourGateway() (*rig.Process, error) { return l.gateway("taskgate") }

// key is the API key of the one caller.
const key = "bench-key"

// adminAddr is where the gateway of that address has its admin listener: at the
// next loopback address, so that the port is free there too.
func adminAddr(addr string) string { return strings.Replace(addr, "127.0.0.1", "127.0.0.2", 1) }

func (l *lab) configure(name, addr, store, backend string) (file string, err error) {
	hash := sha256.Sum256([]byte(key))
	policy := filepath.Join(l.dir, name+"-policy.yaml")
	if err := os.WriteFile(policy, []byte(fiftyRules()), 0o600); err != nil {
		return "", err
	}
	file = filepath.Join(l.dir, name+".yaml")
	return file, os.WriteFile(file, fmt.Appendf(nil, `listen: %s
adminListen: %s
store: %s
policy: [%s]
identity:
  - apiKeys: {header: X-Api-Key, keys: [{tenant: bench, subject: load, sha256: %s}]}
upstreams:
  - {name: modern, path: /mcp, url: "http://%[6]s/mcp", era: modern, limits: &limits {concurrency: 20000, queue: 20000, maxSessions: 64}}
  - {name: legacy, path: /legacy, url: "http://%[6]s/legacy-sse", era: legacy, limits: *limits}
limits: {maxCalls: 20000, maxCallsPerPrincipal: 20000, maxStreams: 20000, maxStreamsPerPrincipal: 20000, maxOpenTasksPerPrincipal: 1000000,
  maxRequestsPerSecond: 1000000, maxRequestsPerSecondPerPrincipal: 1000000, maxRequestBurstPerPrincipal: 1000000, maxEarlyPolls: 1000000000}
log: {level: warn}
`, addr, adminAddr(addr), store, policy, hex.EncodeToString(hash[:]), backend), 0o600)
}

// fiftyRules are a policy in which the last but one rule makes a task of each
// call of wait. The others look at each call before.
func fiftyRules() string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 48 {
		fmt.Fprintf(&b, "  - {name: team-%[1]d, match: {tool: \"team%[1]d_*\"}, promoteAfter: 5s}\n", i)
	}
	b.WriteString("  - {name: wait, match: {tool: wait}, task: required, promoteAfter: 0s}\n")
	b.WriteString("  - {name: rest, match: {tool: \"*\"}, promoteAfter: 2s}\n")
	return b.String()
}
