package faults

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskgate/internal/redistest"
	"taskgate/test/e2e"
	"taskgate/wire"
)

// What the gateway finds at its start stands in its log.
func TestSettingsOfRedisAreReported(t *testing.T) {
	redis := redistest.Start(t, "--appendonly", "no", "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru")
	g := e2e.Start(t, e2e.Options{Store: redis.URL(), Upstream: "http://127.0.0.1:1/mcp"})
	for _, want := range []string{"redis at " + redis.Addr + ": version ", "maxmemory-policy is allkeys-lru", "appendonly is off"} {
		if !strings.Contains(g.Output(), want) {
			t.Errorf("the log does not say %q", want)
		}
	}
}

// A Redis with a limit takes no new tasks while there is still room for the old
// ones to end. With no room at all their ends wait until there is.
func TestFullRedis(t *testing.T) {
	p := startPair(t)
	p.redis.CLI(t, "setrange", "ballast", "33554432", "x")
	running := p.tasks(t, 5, 3*time.Second)
	p.redis.Fill(t, 90)
	p.staysSynchronous(t, "more than 85 % of its maxmemory")
	p.complete(t, running)

	p.redis.CLI(t, "config", "set", "maxmemory", "0")
	p.withStore(t)
	running = p.tasks(t, 5, time.Second)
	p.outage(func() {
		p.redis.Fill(t, 120)
		p.staysSynchronous(t, "OOM")
		e2e.Eventually(t, "the upstream has returned and its results wait", func() bool {
			return p.count(Returned) >= p.count(Ran) && p.counted(t, "taskgate_outcomes_unwritten") == float64(len(running))
		})
		p.redis.CLI(t, "config", "set", "maxmemory", "0")
	})
	p.complete(t, running)
	p.withStore(t)
	p.check(t)
}

// The master dies with tasks that have been promised a moment before. Each of them
// is at a replica, since no other handle was given out, and ends there.
func TestFailover(t *testing.T) {
	master := redistest.Start(t, "--appendfsync", "always")
	replica := redistest.StartReplica(t, master)
	sentinel := redistest.StartSentinel(t, master)
	e2e.Eventually(t, "the Sentinel knows the replica", func() bool {
		return strings.Contains(sentinel.CLI(t, "sentinel", "replicas", "tasks"), replica.Addr) &&
			strings.Contains(master.CLI(t, "info", "replication"), "state=online")
	})
	f := newFleet(t)
	for range 2 {
		f.join(t, sentinel.URL(), hurried+"redis: {waitReplicas: 1}\n", nil)
	}
	p := f.pair(t)

	replica.Signal(t, syscall.SIGSTOP)
	p.staysSynchronous(t, "0 of the 1 replicas")
	replica.Signal(t, syscall.SIGCONT)
	p.withStore(t)

	handles := p.tasks(t, 20, 2*time.Second)
	p.outage(func() {
		master.Kill(t)
		e2e.Eventually(t, "the replica is master", func() bool {
			return strings.Contains(replica.CLI(t, "info", "replication"), "role:master")
		})
	})
	p.complete(t, handles)
	master.Restart(t) // the Sentinel makes it a replica, which waitReplicas wants
	p.withStore(t)
	p.check(t)
}

// A master that has become a replica refuses every write and answers every read.
func TestReadOnlyRedis(t *testing.T) {
	p := startPair(t)
	other := redistest.StartReplica(t, p.redis)
	e2e.Eventually(t, "the replica has everything", func() bool {
		return strings.Contains(p.redis.CLI(t, "info", "replication"), "state=online")
	})
	handles := p.tasks(t, 5, time.Second)
	p.outage(func() {
		other.CLI(t, "replicaof", "no", "one")
		host, port, _ := net.SplitHostPort(other.Addr)
		p.redis.CLI(t, "replicaof", host, port)
		p.staysSynchronous(t, "READONLY")
		p.redis.CLI(t, "replicaof", "no", "one")
	})
	p.complete(t, handles)
	p.withStore(t)
	p.check(t)
}

// Slots move from one master to another under running tasks and new ones.
func TestReshardedCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	f := newFleet(t)
	for range 2 {
		f.join(t, cluster.URL(), hurried, nil)
	}
	p := f.pair(t)
	handles := p.tasks(t, 50, 4*time.Second)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	made := make(chan []handle, 1)
	go func() { made <- p.work(ctx) }()
	cluster.Move(t, 500)
	stop()
	for _, h := range <-made {
		p.seeOff(t, h)
	}
	p.complete(t, handles)
	p.check(t)
}

func TestWrongPasswordAtStart(t *testing.T) {
	redis := redistest.Start(t)
	redis.CLI(t, "config", "set", "requirepass", "right")
	code, output := e2e.StartFailing(t, e2e.Options{
		Store: "redis://:no-secret-of-mine@" + redis.Addr, Upstream: "http://127.0.0.1:1/mcp",
	})
	if code == 0 || !strings.Contains(output, "WRONGPASS") || !strings.Contains(output, redis.Addr) {
		t.Errorf("exit code %d: %s", code, output)
	}
	if strings.Contains(output, "no-secret-of-mine") {
		t.Errorf("the password is shown: %s", output)
	}
}

// Somebody changes the password of a running Redis: new connections are refused.
func TestPasswordChanged(t *testing.T) {
	p := startPair(t)
	handles := p.tasks(t, 5, time.Second)
	p.outage(func() {
		p.redis.CLI(t, "config", "set", "requirepass", "new")
		for _, r := range p.replicas {
			r.toRedis.Cut()
		}
		p.staysSynchronous(t, "NOAUTH")
		p.withoutStore(t, handles[0])
		p.redis.CLI(t, "-a", "new", "--no-auth-warning", "config", "set", "requirepass", "")
	})
	p.complete(t, handles)
	p.withStore(t)
	p.check(t)
}

// Every reply of Redis takes half a second: everything works, later.
func TestSlowRedis(t *testing.T) {
	p := startFleet(t, 2, "").pair(t)
	for _, r := range p.replicas {
		r.toRedis.Delay(500 * time.Millisecond)
	}
	p.complete(t, p.tasks(t, 5, 4*time.Second))
	p.check(t)
}

// Redis is away for longer than the lease. Its gateways answer calls, and what
// they had promised before is kept: no task is lost that a live gateway runs.
func TestRedisAway(t *testing.T) {
	away := time.Duration(number(t, "TASKGATE_AWAY", 5)) * time.Second
	for name, do := range map[string]struct{ leave, comeBack func(*redistest.Server) }{
		"frozen": {func(s *redistest.Server) { s.Signal(t, syscall.SIGSTOP) }, func(s *redistest.Server) { s.Signal(t, syscall.SIGCONT) }},
		"killed": {func(s *redistest.Server) { s.Kill(t) }, func(s *redistest.Server) { s.Restart(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPair(t)
			handles := append(p.tasks(t, 10, time.Second), p.tasks(t, 10, away+4*time.Second)...)
			p.outage(func() {
				back := time.After(away)
				do.leave(p.redis)
				p.withoutStore(t, handles[0])
				<-back
				do.comeBack(p.redis)
			})
			p.complete(t, handles)
			p.withStore(t)
			p.check(t)
			for _, line := range p.replicas[0].Lines() {
				if !json.Valid([]byte(line)) {
					t.Errorf("a line of the log is not JSON: %s", line)
				}
			}
		})
	}
}

// What a newer version adds to a task is there when this one has written it.
func TestNewerMembersAreKept(t *testing.T) {
	const future = `"future":{"n":12345678901234567890}`
	p := startPair(t)
	p.history.Add(Event{Kind: Called, Call: "asks", Allowed: 1})
	reply, err := p.first.CallTool(t.Context(), "ask", `{"key":"asks"}`)
	if err != nil || reply.TaskID() == "" {
		t.Fatalf("no task: %v, %s", err, reply.Body)
	}
	h := handle{call: "asks", id: reply.TaskID()}
	key := "taskgate:task:{" + h.id + "}"
	p.redis.CLI(t, "eval", addMember, "1", key, future+",")
	e2e.Eventually(t, "the task has been answered and has completed", func() bool {
		status, _ := p.look(t.Context(), p.second, h)
		return status == wire.StatusCompleted
	})
	if record := p.redis.CLI(t, "get", key); !strings.Contains(record, future) || !strings.Contains(record, `"completed"`) {
		t.Errorf("the record is %s, want %s in it", record, future)
	}
	p.check(t)
}

// addMember puts a member into the state of a record, as redisstore has it: its size is
// the fifth of the numbers that the record begins with.
const addMember = `
local value = redis.call('GET', KEYS[1])
local at, size = value:find('{', 33, true), struct.unpack('>I4', value, 17)
value = value:sub(1, 16) .. struct.pack('>I4', size + #ARGV[1]) .. value:sub(21, at) .. ARGV[1] .. value:sub(at + 1)
return redis.call('SET', KEYS[1], value, 'KEEPTTL')`
