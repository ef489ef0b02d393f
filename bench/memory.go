package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"taskgate/bench/page"
	"taskgate/bench/rig"
)

// memory is what a gateway needs for streams that wait and calls that run.
func memory(ctx context.Context, l *lab) (string, error) {
	many, err := howMany()
	if err != nil {
		return "", err
	}
	gateway, err := l.gateway("memory")
	if err != nil {
		return "", err
	}
	defer l.stop("memory")
	url := "http://" + gateway.Addr + "/mcp"
	watched, err := startTask(ctx, url, int(time.Hour.Milliseconds()), 0)
	if err != nil {
		return "", err
	}
	none, err := settled(ctx, gateway)
	if err != nil {
		return "", err
	}
	streams, err := listeners(ctx, gateway.Addr, watched, many)
	defer func() {
		for _, s := range streams {
			_ = s.conn.Close() // the gateway ends as well
		}
	}()
	if err != nil {
		return "", err
	}
	listening, err := settled(ctx, gateway)
	if err != nil {
		return "", err
	}
	if err := background(ctx, url, many); err != nil {
		return "", err
	}
	both, err := settled(ctx, gateway)
	if err != nil {
		return "", err
	}
	for _, s := range streams {
		_ = s.conn.Close()
	}
	if err := waitIdle(ctx, gateway); err != nil {
		return "", err
	}
	after, err := settled(ctx, gateway)
	if err != nil {
		return "", err
	}
	table := page.NewTable("what", "RSS MB", "live heap and stacks MB", "KB each, RSS", "goal")
	row := func(name string, now, before footprint, goal string, most float64) {
		each := float64(now.rss-before.rss) / float64(many) / 1024
		table.Add(name, mb(now.rss), mb(now.live), fmt.Sprintf("%.1f", each), goal+atMost(most, each))
	}
	table.Add("idle", mb(none.rss), mb(none.live), "", "")
	row(fmt.Sprintf("%d idle listen streams", many), listening, none, "≤ 20: ", 20)
	row(fmt.Sprintf("and %d running background calls", many), both, listening, "≤ 24 and the body: ", 25)
	table.Add("both, for 10,000 of each", mb(none.rss+(both.rss-none.rss)*10_000/int64(many)), "", "", "≤ 500 MB: "+
		atMost(500, float64(none.rss+(both.rss-none.rss)*10_000/int64(many))/1e6))
	table.Add("after they have ended", mb(after.rss), mb(after.live), "", "live ± 5 % of idle: "+atMost(1.05, float64(after.live)/float64(none.live)))
	return table.String(), nil
}

func mb(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/1e6) }

// howMany streams, and calls, one process may have: both are file descriptors.
func howMany() (int, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return min(10_000, int(limit.Max-1000)/2), err
}

// footprint is what a gateway needs: of the machine, and that it cannot give back.
type footprint struct{ rss, live int64 }

// settled has the gateway collect its garbage first, and leaves it the time in which
// Go gives back to the system what is free.
func settled(ctx context.Context, gateway *rig.Process) (footprint, error) {
	for range 2 { // what the first one finalizes, the second one frees
		if _, err := fetch(ctx, gateway, "/debug/pprof/heap?gc=1"); err != nil {
			return footprint{}, err
		}
	}
	select {
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
		return footprint{}, ctx.Err()
	}
	heap, err := metric(ctx, gateway, "go_memstats_heap_alloc_bytes")
	if err != nil {
		return footprint{}, err
	}
	stacks, err := metric(ctx, gateway, "go_memstats_stack_inuse_bytes")
	return footprint{gateway.RSS(), int64(heap + stacks)}, err
}

func listeners(ctx context.Context, addr, task string, n int) ([]*stream, error) {
	return many(n, func(int) (*stream, error) { return listen(ctx, addr, []string{task}) })
}

// background starts calls that run in the background for long enough to be
// looked at.
func background(ctx context.Context, url string, n int) error {
	const ms = 40_000
	_, err := many(n, func(i int) (string, error) { return startTask(ctx, url, ms, i) })
	return err
}

// many does something n times, from several goroutines.
func many[T any](n int, f func(i int) (T, error)) ([]T, error) {
	const callers = 32
	all, errs := make([]T, n), make([]error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < n && errs[c] == nil; i += callers {
				all[i], errs[c] = f(i)
			}
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

// waitIdle waits until the gateway runs no more than the one call that is watched,
// and the goroutines are gone which have waited a second for further ones.
func waitIdle(ctx context.Context, gateway *rig.Process) error {
	for {
		running, err := metric(ctx, gateway, "taskgate_records_running")
		if err != nil {
			return err
		}
		goroutines, err := metric(ctx, gateway, "go_goroutines")
		if err != nil || running <= 1 && goroutines < 200 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
