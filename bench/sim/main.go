// Command sim drives the gateway's own lease and rescue code, as many replicas
// with many open tasks, against a model of a store that counts what it is asked.
// It shows what grows with what: a replica's upkeep costs the same however many
// tasks and replicas there are, and so, about, does the end of a dead replica's
// task however many others are there to see to it.
//
//	go run ./bench/sim
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/policy"
	"taskgate/reqcoord"
	"taskgate/taskroute"
	"taskgate/taskrun"
	"taskgate/upstream"
)

func main() {
	most := flag.Int("replicas", 1000, "how many replicas there are in the last and largest turn")
	each := flag.Int("tasks", 10_000, "open tasks of each")
	lease := flag.Duration("lease", 6*time.Second, "lease of each")
	flag.Parse()
	fmt.Println("| replicas | open tasks | store operations of a replica in a lease | reads for an orphan | pages for 100 orphans | writes for an orphan | s until all have ended | heap MB |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, replicas := range []int{*most / 100, *most / 10, *most} {
		if err := simulate(replicas, *each, *lease); err != nil {
			fmt.Fprintf(os.Stderr, "sim: %d replicas: %v\n", replicas, err)
			os.Exit(1)
		}
	}
}

// simulate lets the replicas be for a while; then one of them dies.
func simulate(replicas, each int, lease time.Duration) error {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	m := newModel(each, 200*time.Microsecond)
	crash, err := start(ctx, m, lease, &running)
	for i := 1; i < replicas && err == nil; i++ {
		_, err = start(ctx, m, lease, &running)
	}
	if err != nil {
		return err
	}
	time.Sleep(lease) // until what was begun together has come apart
	before := m.beats.Load() + m.pages.Load() + m.gets.Load() + m.writes.Load()
	time.Sleep(lease)
	upkeep := m.beats.Load() + m.pages.Load() + m.gets.Load() + m.writes.Load() - before

	gets, pages, writes := m.gets.Load(), m.pages.Load(), m.writes.Load()
	began := time.Now()
	crash()
	for dead := m.holders[0]; m.open(dead) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 20*lease {
			return fmt.Errorf("%d tasks are still open after %v", m.open(dead), time.Since(began))
		}
	}
	took := time.Since(began)
	perOrphan := func(n int64) float64 { return float64(n) / orphans }
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Printf("| %d | %d | %.1f | %.2f | %.1f | %.2f | %.1f | %.0f |\n", replicas, replicas*each, float64(upkeep)/float64(replicas),
		perOrphan(m.gets.Load()-gets), 100*perOrphan(m.pages.Load()-pages), perOrphan(m.writes.Load()-writes), took.Seconds(), float64(memory.HeapInuse)/1e6)
	return nil
}

// start starts a replica, the gateway's runner without a gateway around it, and
// gives it its tasks.
func start(ctx context.Context, m *model, lease time.Duration, running *sync.WaitGroup) (crash context.CancelFunc, err error) {
	store, err := taskroute.NewStore(m, taskroute.Options{Now: time.Now, Tombstone: time.Hour, CacheSize: 1})
	if err != nil {
		return nil, err
	}
	r := taskrun.New(store, reqcoord.New(nil, time.Now), map[string]upstream.Caller{}, taskrun.Options{
		Now: time.Now, Lease: lease, StoreTimeout: lease, CancelGrace: time.Second, Recheck: time.Second, Reread: time.Hour,
		ProgressEvery: time.Second, Log: zap.NewNop(), Metrics: prometheus.NewRegistry(),
	})
	if err := r.Start(ctx); err != nil {
		return nil, err
	}
	life, end := context.WithCancel(ctx)
	running.Go(func() { _ = r.Run(life) }) // it ends with life
	return end, fill(ctx, store, m.holders[len(m.holders)-1].name)
}

// fill gives a holder its open tasks.
func fill(ctx context.Context, store *taskroute.Store, holder string) error {
	decision, err := policy.Decision{}.Freeze()
	if err != nil {
		return err
	}
	r := taskroute.NewRecord(idOf(0), taskroute.Owner{Tenant: "t", Subject: "s"}, taskroute.Task, holder, time.Now())
	r.State.TTL, r.State.Upstream, r.State.Tool = time.Hour, "up", "tool"
	r.Request.Params, r.Request.Decision = []byte(`{"name":"tool","arguments":{}}`), decision
	return store.Create(ctx, r)
}
