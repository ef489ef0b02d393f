package redisstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/taskroute"
	"taskgate/taskroute/redisstore"
)

func doc(holder string) taskroute.Doc {
	at := time.Now().Add(time.Hour)
	return taskroute.Doc{
		ID: taskroute.NewID(), Open: true, Runnable: true, Holder: holder, Owner: "acme/ann",
		ExpiresAt: at, ForgetAt: at.Add(time.Hour),
		Parts: [taskroute.NumParts][]byte{
			taskroute.PartState: make([]byte, 450), taskroute.PartRequest: make([]byte, 450),
		},
	}
}

func wantRevision(t *testing.T, s *redisstore.Store, id string, want uint64) {
	t.Helper()
	d, err := s.Get(t.Context(), id, taskroute.PartState)
	if err != nil || d.Revision != want {
		t.Fatalf("revision %d, error %v; want revision %d", d.Revision, err, want)
	}
}

// TestLostReplies has the server run each script and the reply get lost: the
// caller sees a success, and the server has done it once.
func TestLostReplies(t *testing.T) {
	server := redistest.Start(t)
	cutter := mcptest.NewCutter(t, server.Addr)
	// Time stands still, so that after the first create no other looks how full
	// the server is: that reply would be lost before the script is sent.
	now := time.Now()
	s := openWith(t, "redis://"+cutter.Addr(), redisstore.Options{Now: func() time.Time { return now }})
	if err := s.Create(t.Context(), doc("r0"), rand.Text()); err != nil {
		t.Fatal(err)
	}
	d := doc("r1")
	d.Owner = "acme/bob"
	for _, step := range []struct {
		what string
		call func() error
	}{
		{"create", func() error { return s.Create(t.Context(), d, rand.Text()) }},
		{"replace", func() error { return s.Replace(t.Context(), 1, d, rand.Text()) }},
		{"replace again", func() error { return s.Replace(t.Context(), 2, d, rand.Text()) }},
		{"heartbeat", func() error { _, err := s.Heartbeat(t.Context(), "r1", time.Hour); return err }},
		{"retire", func() error { return s.Retire(t.Context(), "r2") }},
		{"usage", func() error { _, err := s.Usage(t.Context(), d.Owner); return err }},
		{"owned", func() error { _, _, err := s.Owned(t.Context(), d.Owner, "", 10); return err }},
		{"orphans", func() error { _, _, err := s.Orphans(t.Context(), "", 10); return err }},
	} {
		ran := server.CLI(t, "info", "commandstats")
		cutter.BeforeReply()
		result := make(chan error, 1)
		go func() { result <- step.call() }()
		await(t, step.what+" has run", func() bool {
			return evalCalls(server.CLI(t, "info", "commandstats")) != evalCalls(ran)
		})
		cutter.Heal()
		if err := <-result; err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
	}
	wantRevision(t, s, d.ID, 3)
	if used, err := s.Usage(t.Context(), d.Owner); used != (taskroute.Usage{Open: 1, Bytes: d.Size()}) || err != nil {
		t.Fatalf("the owner has %+v, %v", used, err)
	}
}

// evalCalls is the line of INFO that counts the scripts that have run.
func evalCalls(stats string) string {
	_, rest, _ := strings.Cut(stats, "cmdstat_evalsha:")
	line, _, _ := strings.Cut(rest, ",")
	return line
}

// TestKill kills Redis under load and starts it again on its append-only file.
func TestKill(t *testing.T) {
	server := redistest.Start(t, "--appendfsync", "always") // else it keeps back what comes while it syncs, and a kill loses that
	s := open(t, server.URL(), "kill")
	ctx, cancel := context.WithCancel(t.Context())
	var acked sync.Map
	var n atomic.Int64
	var writers sync.WaitGroup
	for range 16 {
		writers.Go(func() {
			for ctx.Err() == nil {
				if d := doc("r1"); s.Create(ctx, d, rand.Text()) == nil {
					acked.Store(d.ID, nil)
					n.Add(1)
				}
			}
		})
	}
	for round := range int64(3) {
		before := n.Load()
		await(t, "creates are acknowledged", func() bool { return n.Load() > before+200*(round+1) })
		server.Kill(t)
		server.Restart(t)
	}
	before := n.Load()
	await(t, "creates go on", func() bool { return n.Load() > before+200 })
	cancel()
	writers.Wait()
	acked.Range(func(id, _ any) bool {
		_, err := s.Get(t.Context(), id.(string), taskroute.PartState)
		if err != nil {
			t.Errorf("an acknowledged task is lost: %v", err)
		}
		return err == nil
	})
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	mcptest.Eventually(t, 30*time.Second, what, ok)
}

func TestScriptsForgotten(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL(), "flush")
	d := doc("r1")
	if err := s.Create(t.Context(), d, rand.Text()); err != nil {
		t.Fatal(err)
	}
	for rev := range uint64(20) {
		server.CLI(t, "script", "flush")
		if err := s.Replace(t.Context(), rev+1, d, rand.Text()); err != nil {
			t.Fatal(err)
		}
	}
	wantRevision(t, s, d.ID, 21)
}

// TestFrozen stops Redis: every call ends at its limit, or with its context.
func TestFrozen(t *testing.T) {
	server := redistest.Start(t)
	s := openWith(t, server.URL(), redisstore.Options{Timeout: time.Second})
	d := doc("r1")
	if err := s.Create(t.Context(), d, rand.Text()); err != nil {
		t.Fatal(err)
	}
	server.Signal(t, syscall.SIGSTOP)
	t.Cleanup(func() { server.Signal(t, syscall.SIGCONT) })

	start := time.Now()
	if err := s.Replace(t.Context(), 1, d, rand.Text()); err == nil || !strings.Contains(err.Error(), "no answer within 1s") {
		t.Fatalf("replace at a frozen server: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, d.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("get at a frozen server: %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Fatalf("two calls took %v", took)
	}
	server.Signal(t, syscall.SIGCONT)
	await(t, "the server answers again", func() bool { return s.Ping(t.Context()) == nil })
}

// TestFull is a Redis with a limit: new tasks are refused while there is room for
// the old ones to end, and nothing is lost when there is none at all.
func TestFull(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	s := open(t, server.URL(), "full")
	server.CLI(t, "setrange", "ballast", "33554432", "x")
	old := doc("r1")
	if err := s.Create(t.Context(), old, rand.Text()); err != nil {
		t.Fatal(err)
	}
	server.Fill(t, 90)
	await(t, "new tasks are refused", func() bool {
		return isFull(t, s.Create(t.Context(), doc("r1"), rand.Text()), "85 % of its maxmemory")
	})
	if err := s.Replace(t.Context(), 1, old, rand.Text()); err != nil {
		t.Fatalf("an old task cannot be written in the room kept for it: %v", err)
	}
	server.CLI(t, "config", "set", "maxmemory", "0")
	await(t, "new tasks are taken again", func() bool {
		return s.Create(t.Context(), doc("r1"), rand.Text()) == nil
	})
	server.Fill(t, 120)
	if !isFull(t, s.Create(t.Context(), doc("r1"), rand.Text()), "OOM") {
		t.Fatal("a create succeeded where there is no memory")
	}
	if err := s.Replace(t.Context(), 2, old, rand.Text()); err == nil {
		t.Fatal("a replace succeeded where there is no memory")
	}
	wantRevision(t, s, old.ID, 2)
}

// isFull tells whether err is ErrFull, and wants a reason in it.
func isFull(t *testing.T, err error, reason string) bool {
	t.Helper()
	if err == nil {
		return false
	}
	if !errors.Is(err, taskroute.ErrFull) || !strings.Contains(err.Error(), reason) {
		t.Fatalf("create: %v, want %q because of %q", err, taskroute.ErrFull, reason)
	}
	return true
}

// TestHintsAfterCut kills the subscriber's connection again and again: each time
// the receiver learns that it may have missed something.
func TestHintsAfterCut(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, server.URL(), "hints"), open(t, server.URL(), "hints")
	hints := make(chan string, 10_000)
	go func() { _ = b.Hints(t.Context(), func(id string) { hints <- id }) }()
	d := doc("r1")
	if err := a.Create(t.Context(), d, rand.Text()); err != nil {
		t.Fatal(err)
	}
	for rev := range uint64(5) {
		wantHint(t, hints, "")
		if err := a.Replace(t.Context(), rev+1, d, rand.Text()); err != nil {
			t.Fatal(err)
		}
		wantHint(t, hints, d.ID)
		server.CLI(t, "client", "kill", "type", "pubsub")
	}
}

func wantHint(t *testing.T, hints <-chan string, want string) {
	t.Helper()
	select {
	case got := <-hints:
		if got != want {
			t.Fatalf("hint is %q, want %q", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("no hint %q within 30 s", want)
	}
}

// TestNothingIsLeft ends every task and has everything expire: no key remains but
// the memory of the dead.
func TestNothingIsLeft(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL(), "left")
	at := time.Now().Add(2 * time.Second)
	for i := range 300 {
		d := doc(fmt.Sprintf("r%d", i%3))
		d.ExpiresAt, d.ForgetAt = at, at.Add(time.Second)
		if err := s.Create(t.Context(), d, rand.Text()); err != nil {
			t.Fatal(err)
		}
		d.Open, d.Runnable, d.Holder = false, false, ""
		if err := s.Replace(t.Context(), 1, d, rand.Text()); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "everything has expired", func() bool {
		if ids := sweep(t, s); len(ids) > 0 {
			t.Fatalf("orphans %q", ids)
		}
		return server.CLI(t, "keys", "*") == "left:{holders}:gone"
	})
}

// TestStaleEntries plants what a crash between two writes leaves behind.
func TestStaleEntries(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL(), "stale")
	ended, open := doc("dead"), doc("dead")
	for _, d := range []taskroute.Doc{ended, open} {
		if err := s.Create(t.Context(), d, rand.Text()); err != nil {
			t.Fatal(err)
		}
	}
	held := "stale:{holders}:held:dead"
	rank := server.CLI(t, "zscore", held, ended.ID)
	ended.Open, ended.Runnable, ended.Holder = false, false, ""
	if err := s.Replace(t.Context(), 1, ended, rand.Text()); err != nil {
		t.Fatal(err)
	}
	server.CLI(t, "zadd", held, rank, ended.ID) // as if it had not been dropped
	server.CLI(t, "zadd", held, rank, "COMING") // as if its create were under way
	ids := sweep(t, s)
	if len(ids) != 1 || ids[0] != open.ID {
		t.Fatalf("orphans are %q, want %q", ids, open.ID)
	}
	for id, want := range map[string]bool{ended.ID: false, open.ID: true, "COMING": true} {
		if got := server.CLI(t, "zscore", held, id) != ""; got != want {
			t.Errorf("an entry of %q is there: %v, want %v", id, got, want)
		}
	}

	long := time.Now().Add(-time.Hour).UnixMilli()
	server.CLI(t, "zadd", "stale:{holders}:leases", strconv.FormatInt(long, 10), "dead")
	sweep(t, s)
	if got := server.CLI(t, "zscore", held, "COMING"); got != "" {
		t.Errorf("the entry of a create that never came is kept for ever")
	}
}

// TestHandedOver has a document go from holder to holder: each write drops the entry
// that it makes stale, and none that was written for a later revision.
func TestHandedOver(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL(), "over")
	d := doc("r1")
	if err := s.Create(t.Context(), d, rand.Text()); err != nil {
		t.Fatal(err)
	}
	const held = "over:{holders}:held:"
	for i, step := range []struct {
		what    string
		before  func()
		holder  string
		entries map[string]bool
	}{
		{"taken by another", func() {}, "r2", map[string]bool{"r1": false, "r2": true}},
		{"taken back", func() {}, "r1", map[string]bool{"r1": true, "r2": false}},
		{"taken while its holder writes too", func() { server.CLI(t, "zincrby", held+"r1", "1", d.ID) }, "r2",
			map[string]bool{"r1": true, "r2": true}},
		{"given up", func() {}, "", map[string]bool{"": true, "r2": false}},
		{"ended", func() { d = ended(d) }, "", map[string]bool{"": false}},
	} {
		step.before()
		d.Holder = step.holder
		if err := s.Replace(t.Context(), uint64(i+1), d, rand.Text()); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		for holder, want := range step.entries {
			if got := server.CLI(t, "zscore", held+holder, d.ID) != ""; got != want {
				t.Errorf("%s: the entry of holder %q is there: %v, want %v", step.what, holder, got, want)
			}
		}
	}
}

// sweep pages through all orphans.
func sweep(t *testing.T, s *redisstore.Store) (ids []string) {
	t.Helper()
	for cursor, first := "", true; first || cursor != ""; first = false {
		page, next, err := s.Orphans(t.Context(), cursor, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			ids = append(ids, o.ID)
		}
		cursor = next
	}
	return ids
}

// TestHeartbeatDropsExpired is the entry of a document that has expired while it
// was open: nobody writes it again, and its holder may live for weeks.
func TestHeartbeatDropsExpired(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL(), "drop")
	if _, err := s.Heartbeat(t.Context(), "r1", time.Hour); err != nil {
		t.Fatal(err)
	}
	old, young := doc("r1"), doc("r1")
	old.ExpiresAt, old.ForgetAt = time.Now().Add(-2*time.Hour), time.Now().Add(-2*time.Hour)
	for _, d := range []taskroute.Doc{old, young} {
		if err := s.Create(t.Context(), d, rand.Text()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Heartbeat(t.Context(), "r1", time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := server.CLI(t, "zrange", "drop:{holders}:held:r1", "0", "-1"); got != young.ID {
		t.Fatalf("held are %q, want %q", got, young.ID)
	}
}

// TestIdleCost: heartbeats and looks for orphans cost the server as many commands
// with ten thousand open tasks as with a hundred.
func TestIdleCost(t *testing.T) {
	server := redistest.Start(t)
	cost := func(tasks int) int {
		s := open(t, server.URL(), fmt.Sprintf("idle%d", tasks))
		var creating sync.WaitGroup
		for range 20 {
			creating.Go(func() {
				for range tasks / 20 {
					if err := s.Create(t.Context(), doc("r1"), rand.Text()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		creating.Wait()
		before := commands(t, server)
		for range 10 {
			if _, err := s.Heartbeat(t.Context(), "r1", time.Hour); err != nil {
				t.Fatal(err)
			}
			if ids := sweep(t, s); len(ids) > 0 {
				t.Fatalf("%d tasks of a live holder are orphans", len(ids))
			}
		}
		return commands(t, server) - before
	}
	if few, many := cost(100), cost(10_000); many != few {
		t.Errorf("%d commands with 10,000 tasks, %d with 100", many, few)
	}
}

// commands is how many the server has run so far, those of scripts too.
func commands(t *testing.T, server *redistest.Server) int {
	t.Helper()
	return infoNumber(t, server.CLI(t, "info", "stats"), "total_commands_processed")
}

// TestFailover has a Sentinel put a replica in the master's place.
func TestFailover(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	sentinel := redistest.StartSentinel(t, master)
	await(t, "the Sentinel knows the replica", func() bool {
		return strings.Contains(sentinel.CLI(t, "sentinel", "replicas", "tasks"), replica.Addr)
	})
	s := open(t, sentinel.URL(), "fail")
	d := doc("r1")
	if err := s.Create(t.Context(), d, rand.Text()); err != nil {
		t.Fatal(err)
	}
	await(t, "the replica has the task", func() bool {
		return replica.CLI(t, "exists", "fail:task:{"+d.ID+"}") == "1"
	})
	master.Kill(t)
	nonce := rand.Text()
	await(t, "the replica is master", func() bool { return s.Replace(t.Context(), 1, d, nonce) == nil })
	wantRevision(t, s, d.ID, 2)
}

// TestWaitReplicas is a replica that does not keep up: what it does not have is
// not acknowledged, also not when it is asked for again.
func TestWaitReplicas(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	await(t, "the replica is there", func() bool {
		return strings.Contains(master.CLI(t, "info", "replication"), "state=online")
	})
	s := openWith(t, master.URL(), redisstore.Options{Prefix: "copy", WaitReplicas: 1, Timeout: 4 * time.Second})
	d, nonce := doc("r1"), rand.Text()
	replica.Signal(t, syscall.SIGSTOP)
	for range 2 {
		if err := s.Create(t.Context(), d, nonce); err == nil || !strings.Contains(err.Error(), "0 of the 1 replicas") {
			t.Fatalf("create says %v while no replica has the task", err)
		}
	}
	replica.Signal(t, syscall.SIGCONT)
	await(t, "the replica is back and has the task", func() bool { return s.Create(t.Context(), d, nonce) == nil })
	for range 100 {
		d := doc("r1")
		if err := s.Create(t.Context(), d, rand.Text()); err != nil {
			t.Fatal(err)
		}
		if replica.CLI(t, "exists", "copy:task:{"+d.ID+"}") != "1" {
			t.Fatal("an acknowledged task is not at the replica")
		}
	}
}

func TestWaitReplicasIsNotForAClusterAndSaysSo(t *testing.T) {
	_, err := redisstore.Open(t.Context(), "redis://127.0.0.1:1,127.0.0.1:2", redisstore.Options{WaitReplicas: 1})
	if err == nil || !strings.Contains(err.Error(), "not for a Cluster") {
		t.Errorf("open says %v", err)
	}
}

// TestToldAgain is a heartbeat whose reply may be lost, and a change that is
// written after its entry: the holder is told once more, and not for ever.
func TestToldAgain(t *testing.T) {
	s := openWith(t, redistest.Start(t).URL(), redisstore.Options{Timeout: 500 * time.Millisecond})
	const lease = 2 * time.Second
	told := func() bool {
		changed, err := s.Heartbeat(t.Context(), "r1", lease)
		if err != nil {
			t.Fatal(err)
		}
		return len(changed) > 0
	}
	if told() {
		t.Fatal("the holder was told of a change that nobody made")
	}
	d := doc("r1")
	if err := s.Create(t.Context(), d, rand.Text()); err != nil {
		t.Fatal(err)
	}
	d.Tell = "r1"
	if err := s.Replace(t.Context(), 1, d, rand.Text()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if !told() {
			t.Fatal("the holder was told once only")
		}
	}
	await(t, "the holder is left in peace", func() bool { return !told() })
}

// TestWrongClocks is a replica an hour ahead and one an hour behind: both tell the
// server's time, and neither shortens or prolongs what they write.
func TestWrongClocks(t *testing.T) {
	server := redistest.Start(t)
	for _, wrong := range []time.Duration{-time.Hour, 5 * time.Minute, time.Hour} {
		s := openWith(t, server.URL(), redisstore.Options{Now: func() time.Time { return time.Now().Add(wrong) }})
		if off := time.Until(s.Now()).Abs(); off > time.Second {
			t.Errorf("%v off: the store's clock is wrong by %v", wrong, off)
		}
		if _, err := s.Heartbeat(t.Context(), "r1", time.Hour); err != nil {
			t.Fatal(err)
		}
		long, short := doc("r1"), doc("r1")
		long.ExpiresAt, short.ExpiresAt = s.Now().Add(time.Minute), s.Now().Add(time.Second)
		for _, d := range []taskroute.Doc{long, short} {
			if err := s.Create(t.Context(), d, rand.Text()); err != nil {
				t.Fatal(err)
			}
		}
		await(t, "the short one has expired", func() bool {
			_, err := s.Get(t.Context(), short.ID)
			return errors.Is(err, taskroute.ErrNotFound)
		})
		wantRevision(t, s, long.ID, 1)
		if ids := sweep(t, s); len(ids) > 0 {
			t.Errorf("%v off: %q are orphans, though their holder lives", wrong, ids)
		}
	}
}

// TestReshard moves a third of a cluster's slots to another master under load.
func TestReshard(t *testing.T) {
	cluster := redistest.StartCluster(t)
	s := open(t, cluster.URL(), "reshard")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var done atomic.Int64
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for ctx.Err() == nil {
				d := doc("r1")
				if err := s.Create(t.Context(), d, rand.Text()); err != nil {
					t.Errorf("create: %v", err)
					return
				}
				if err := s.Replace(t.Context(), 1, d, rand.Text()); err != nil {
					t.Errorf("replace: %v", err)
					return
				}
				if got, err := s.Get(t.Context(), d.ID, taskroute.PartState); err != nil || got.Revision != 2 {
					t.Errorf("revision %d, error %v; want revision 2", got.Revision, err)
					return
				}
				done.Add(1)
			}
		})
	}
	await(t, "documents are written", func() bool { return done.Load() > 100 })
	cluster.Move(t, 1000)
	before := done.Load()
	await(t, "documents are written afterwards", func() bool { return done.Load() > before+100 || t.Failed() })
	cancel()
	writers.Wait()
}
