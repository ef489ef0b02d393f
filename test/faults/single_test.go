package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/test/e2e"
	"taskgate/wire"
)

// pair is two replicas and a client that makes its tasks at the first.
type pair struct {
	*fleet
	*client
	first, second *mcptest.Client // of the legacy upstream
}

func startPair(t *testing.T) *pair {
	t.Helper()
	return startFleet(t, 2, hurried).pair(t)
}

func (f *fleet) pair(t *testing.T) *pair {
	t.Helper()
	c := newClient(t, f, t.Name(), rand.New(rand.NewPCG(1, 1)))
	return &pair{fleet: f, client: c, first: c.conns[0][0], second: c.conns[0][1]}
}

// tasks makes n tasks that work for the given time.
func (p *pair) tasks(t *testing.T, n int, lasting time.Duration) (handles []handle) {
	t.Helper()
	for range n {
		call := fmt.Sprintf("promised-%d", p.count(Called))
		p.history.Add(Event{Kind: Called, Call: call, Allowed: 1})
		reply, err := p.first.CallTool(t.Context(), "slow", fmt.Sprintf(`{"key":%q,"ms":%d}`, call, lasting.Milliseconds()))
		if err != nil || reply.TaskID() == "" {
			t.Fatalf("no task: %v, %s", err, reply.Body)
		}
		p.history.Add(Event{Kind: Acked, Call: call, Task: reply.TaskID()})
		handles = append(handles, handle{call: call, id: reply.TaskID()})
	}
	return handles
}

// lost waits until the second replica shows that the outcome of each is unknown.
func (p *pair) lost(t *testing.T, handles []handle) {
	t.Helper()
	began := time.Now()
	for _, h := range handles {
		var task wire.Object
		e2e.Eventually(t, "a task of a lost replica has ended", func() bool {
			_, _ = p.look(t.Context(), p.second, h) // puts it down
			reply, err := p.second.Task(t.Context(), h.id)
			task = reply.Result()
			status, _ := wire.String(task.Get("status"))
			return err == nil && status == wire.StatusFailed
		})
		if reason := reasonOf(task.Get("error")); reason != "outcome_unknown" {
			t.Errorf("the reason is %q: %s", reason, task.Bytes())
		}
	}
	if took := time.Since(began); took > bounds.Lapse {
		t.Errorf("it took %v until the last had ended, more than %v", took, bounds.Lapse)
	}
}

func reasonOf(e wire.Raw) string {
	var parsed struct{ Data struct{ Reason string } }
	_ = json.Unmarshal(e, &parsed) // what is no error has no reason
	return parsed.Data.Reason
}

// check is Check for tools that may work long.
func (p *pair) check(t *testing.T) {
	t.Helper()
	patient := bounds
	patient.Work = time.Hour
	for _, v := range Check(p.history.Events(), patient) {
		t.Error(v)
	}
}

func TestKilledHolder(t *testing.T) {
	p := startPair(t)
	handles := p.tasks(t, 100, time.Hour)
	p.replicas[0].Kill()
	p.lost(t, handles)
	p.check(t)
}

// A replica that was frozen beyond its lease finds its tasks given up, and its
// late results change nothing.
func TestFrozenHolder(t *testing.T) {
	p := startPair(t)
	handles := p.tasks(t, 20, 2*lease)
	signal(t, p.replicas[0], syscall.SIGSTOP)
	p.lost(t, handles)
	e2e.Eventually(t, "the upstream has returned", func() bool { return p.count(Returned) == len(handles) })
	signal(t, p.replicas[0], syscall.SIGCONT)
	e2e.Eventually(t, "the replica has found out", func() bool {
		reply, err := p.first.CallTool(t.Context(), "slow", `{"key":"later","ms":200}`)
		return err == nil && reply.TaskID() != ""
	})
	for _, h := range handles {
		for _, conn := range []*mcptest.Client{p.first, p.second} {
			if status, err := p.look(t.Context(), conn, h); status != wire.StatusFailed {
				t.Errorf("task is %q, error %v", status, err)
			}
		}
	}
	p.history.Add(Event{Kind: Called, Call: "later", Allowed: 1000})
	p.check(t)
}

// complete waits until both replicas show that each has completed.
func (p *pair) complete(t *testing.T, handles []handle) {
	t.Helper()
	for _, h := range handles {
		for _, conn := range []*mcptest.Client{p.first, p.second} {
			e2e.Eventually(t, "a task has ended", func() bool {
				status, _ := p.look(t.Context(), conn, h)
				if terminal(status) && status != wire.StatusCompleted {
					t.Fatalf("a task is %s, and its call was never lost", status)
				}
				return terminal(status)
			})
		}
	}
}

// staysSynchronous waits until the first replica answers a slow call instead of
// making it a task, and says why, for people and in a metric.
func (p *pair) staysSynchronous(t *testing.T, why string) {
	t.Helper()
	e2e.Eventually(t, "a slow call is answered", func() bool {
		p.history.Add(Event{Kind: Called, Call: "synchronous", Allowed: 1})
		reply, err := p.first.CallTool(t.Context(), "slow", `{"key":"synchronous","ms":1500}`)
		return err == nil && reply.Type() == wire.ResultComplete
	})
	e2e.Eventually(t, "the log says why: "+why, func() bool { return strings.Contains(p.replicas[0].Output(), why) })
	if p.counted(t, "taskgate_records_refused_total") == 0 {
		t.Error("the metric does not tell of calls that stayed synchronous")
	}
}

// counted is a metric of the first replica.
func (p *pair) counted(t *testing.T, name string) (value float64) {
	t.Helper()
	resp, err := http.Get(p.replicas[0].Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			if value, err = strconv.ParseFloat(text, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	return value
}

func (p *pair) count(kind Kind) (n int) {
	for _, e := range p.history.Events() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// A replica that cannot reach Redis answers calls, makes no promises and says
// what is wrong; the others see to what it has promised before.
func TestPartedHolder(t *testing.T) {
	p := startPair(t)
	handles := p.tasks(t, 20, time.Hour)
	p.replicas[0].toRedis.Pause()
	p.withoutStore(t, handles[0])
	p.lost(t, handles)
	p.replicas[0].toRedis.Heal()
	p.withStore(t)
	p.check(t)
}

func TestFrozenRedis(t *testing.T) {
	p := startPair(t)
	handles := p.tasks(t, 1, time.Hour)
	p.outage(func() {
		p.redis.Signal(t, syscall.SIGSTOP)
		defer p.redis.Signal(t, syscall.SIGCONT)
		p.withoutStore(t, handles[0])
	})
	p.withStore(t)
}

// withoutStore checks what the first replica does when it cannot reach Redis.
func (p *pair) withoutStore(t *testing.T, h handle) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, ms := range []int{0, 1500} {
		p.history.Add(Event{Kind: Called, Call: "parted", Allowed: 1})
		reply, err := p.first.CallTool(ctx, "slow", fmt.Sprintf(`{"key":"parted","ms":%d}`, ms))
		if err != nil || reply.Type() != wire.ResultComplete {
			t.Errorf("a call of %d ms was not answered: %v, %s", ms, err, reply.Body)
		}
	}
	reply, err := p.first.Task(ctx, h.id)
	if err != nil || reasonOf(reply.Message.Error) != "store_unavailable" {
		t.Errorf("tasks/get says %v, %s", err, reply.Body)
	}
}

// withStore waits until the first replica makes tasks again.
func (p *pair) withStore(t *testing.T) {
	t.Helper()
	e2e.Eventually(t, "the replica makes tasks again", func() bool {
		p.history.Add(Event{Kind: Called, Call: "parted", Allowed: 1})
		reply, err := p.first.CallTool(t.Context(), "slow", `{"key":"parted","ms":300}`)
		return err == nil && reply.TaskID() != ""
	})
}

// Who listens at another replica hears the end of every task, once and last,
// although hints are lost all the time.
func TestListenersHearEveryEnd(t *testing.T) {
	p := startPair(t)
	handles := p.tasks(t, 20, 4*time.Second)
	ids := make([]string, len(handles))
	for i, h := range handles {
		ids[i] = h.id
	}
	var mu sync.Mutex
	ends := map[string]int{}
	ctx, stop := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() {
		p.listen(ctx, t, ids, func(m wire.Message) {
			id, status := aboutTask(m)
			mu.Lock()
			defer mu.Unlock()
			if ends[id] > 0 {
				ends[id]++ // after the end
			}
			if terminal(status) && ends[id] == 0 {
				ends[id] = 1
			}
		})
	})
	defer listening.Wait()
	defer stop()
	e2e.Eventually(t, "all ends are heard", func() bool {
		p.redis.CLI(t, "client", "kill", "type", "pubsub")
		mu.Lock()
		defer mu.Unlock()
		return len(ends) == len(ids)
	})
	stop()
	listening.Wait()
	for id, n := range ends {
		if n != 1 {
			t.Errorf("task %s was told of %d times after its end", id, n-1)
		}
	}
}

// listen hears of tasks at the second replica until all have ended, or ctx does.
func (p *pair) listen(ctx context.Context, t *testing.T, ids []string, hear func(wire.Message)) {
	filter := wire.Object{}.With("notifications", mcptest.JSON(map[string]any{"taskIds": ids})).Bytes()
	reply, err := p.second.Call(ctx, "subscriptions/listen", filter, mcptest.OnNotification(hear))
	if err == nil && reply.Err() != nil {
		err = reply.Err()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a stream broke off: %v", err)
	}
}

// aboutTask is what a notifications/tasks tells; both are "" for another message.
func aboutTask(m wire.Message) (id, status string) {
	params, _ := m.ParamsObject()
	id, _ = wire.String(params.Get("taskId"))
	status, _ = wire.String(params.Get("status"))
	return id, status
}

// A thousand streams outlive a restart of Redis, and each hears the end that came
// meanwhile.
func TestManyListenersOverARestart(t *testing.T) {
	const streams = 1000
	p := startFleet(t, 2, "").pair(t) // by the defaults: a machine that opens so many streams at once is slow
	handles := p.tasks(t, 10, 15*time.Second)
	ctx, stop := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	defer listening.Wait()
	defer stop()
	var ended atomic.Int64
	var open sync.WaitGroup
	opening := make(chan struct{}, 32) // at once; it is not their opening that is tried here
	for i := range streams {
		opening <- struct{}{}
		open.Add(1)
		opened := sync.OnceFunc(func() { <-opening; open.Done() })
		listening.Go(func() {
			defer opened()
			p.listen(ctx, t, []string{handles[i%len(handles)].id}, func(m wire.Message) {
				if m.Method == wire.NoteAcknowledged {
					opened()
				}
				if _, status := aboutTask(m); terminal(status) {
					ended.Add(1)
				}
			})
		})
	}
	open.Wait()
	p.outage(func() {
		p.redis.Kill(t)
		e2e.Eventually(t, "the upstream has returned", func() bool { return p.count(Returned) == len(handles) })
		p.redis.Restart(t)
	})
	e2e.Eventually(t, "every stream has heard the end", func() bool { return ended.Load() == streams })
	p.complete(t, handles)
	p.check(t)
}

// A replica that is cut off runs on, also a call that may run again: it cannot
// know that another has sent it again meanwhile. Once it can, it stops its own.
func TestPartedHolderOfARerun(t *testing.T) {
	p := startPair(t)
	p.history.Add(Event{Kind: Called, Call: "rerun", Allowed: attempts("again")})
	reply, err := p.first.CallTool(t.Context(), "again", `{"key":"rerun","ms":3600000}`)
	if err != nil || reply.TaskID() == "" {
		t.Fatalf("no task: %v, %s", err, reply.Body)
	}
	p.replicas[0].toRedis.Pause()
	e2e.Eventually(t, "the call was sent again", func() bool { return p.count(Ran) == 2 })
	if n := p.count(Stopped); n != 0 {
		t.Errorf("%d calls were stopped before anybody could know", n)
	}
	p.replicas[0].toRedis.Heal()
	e2e.Eventually(t, "the first call was stopped", func() bool { return p.count(Stopped) == 1 })
	h := handle{call: "rerun", id: reply.TaskID()}
	if status, err := p.look(t.Context(), p.first, h); status != wire.StatusWorking {
		t.Errorf("the task is %q, %v; want it working at the other replica", status, err)
	}
	if _, err := p.first.Cancel(t.Context(), h.id); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, "the second call was stopped", func() bool { return p.count(Stopped) == 2 })
	p.check(t)
}

// One signal has a gateway wait for its calls, a second ends it at once.
func TestSecondSignal(t *testing.T) {
	p := startFleet(t, 2, "lease: 2s\ntimeouts: {store: 1s, drain: 1h}\n").pair(t)
	handles := p.tasks(t, 5, time.Hour)
	first := p.replicas[0]
	signal(t, first, syscall.SIGTERM)
	e2e.Eventually(t, "the gateway is not ready any more", func() bool {
		resp, err := http.Get(first.Admin + "/readyz")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusServiceUnavailable
	})
	if status, err := p.look(t.Context(), p.second, handles[0]); status != wire.StatusWorking {
		t.Errorf("while the gateway waits for its calls a task is %q, %v", status, err)
	}
	signal(t, first, syscall.SIGTERM)
	if code := first.Wait(t); code == 0 {
		t.Error("a gateway that had to leave its calls says that all is well")
	}
	p.lost(t, handles)
	p.check(t)
}
