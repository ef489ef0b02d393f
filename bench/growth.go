package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"taskgate/bench/page"
	"taskgate/taskroute"
)

// growth is what the store's operations cost with more and more open tasks, by
// the processor time that they take Redis: that of the clock depends on what else
// the machine does.
func growth(ctx context.Context, l *lab) (string, error) {
	client, err := l.client()
	if err != nil {
		return "", err
	}
	defer client.Close()
	if err := client.FlushAll(ctx).Err(); err != nil {
		return "", err
	}
	store, err := l.store(ctx, "growth")
	if err != nil {
		return "", err
	}
	defer store.Backend().Close()
	empty, err := info(ctx, client, "memory", "used_memory")
	if err != nil {
		return "", err
	}
	table := page.NewTable("open tasks", "tasks/get, µs of Redis", "create", "heartbeat", "bytes for one task")
	var firsts, lasts [3]float64
	var ids []string
	for _, open := range []int{100, 1_000, 10_000, 100_000} {
		made, err := openTasks(ctx, store, open-len(ids))
		if err != nil {
			return "", err
		}
		ids = append(ids, made...)
		used, err := info(ctx, client, "memory", "used_memory")
		if err != nil {
			return "", err
		}
		var costs [3]float64
		next := roundRobin(ids)
		for i, op := range []func(context.Context) error{
			func(ctx context.Context) error {
				_, err := store.Get(ctx, taskroute.By{Owner: caller, Kind: taskroute.Task}, next())
				return err
			},
			func(ctx context.Context) error {
				made, err := openTasks(ctx, store, 1)
				ids = append(ids, made...)
				return err
			},
			func(ctx context.Context) error { return store.Heartbeat(ctx, growthHolder, time.Minute) },
		} {
			if costs[i], err = l.redisCost(ctx, op); err != nil {
				return "", err
			}
		}
		if open == 100 {
			firsts = costs
		}
		lasts = costs
		table.Add(fmt.Sprint(open), fmt.Sprintf("%.1f", costs[0]), fmt.Sprintf("%.1f", costs[1]), fmt.Sprintf("%.1f", costs[2]),
			fmt.Sprintf("%.0f", (used-empty)/float64(open)))
	}
	table.Add("last by first, ≤ 1.15", atMost(1.15, lasts[0]/firsts[0]), atMost(1.15, lasts[1]/firsts[1]), atMost(1.15, lasts[2]/firsts[2]), "goal: ≤ 1331")
	return table.String(), nil
}

const growthHolder = "bench"

// openTasks makes n tasks.
func openTasks(ctx context.Context, store *taskroute.Store, n int) ([]string, error) {
	const callers = 64
	var left atomic.Int64
	left.Store(int64(n))
	var mu sync.Mutex
	var ids []string
	var failed error
	var wg sync.WaitGroup
	for range min(n, callers) {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				r := newRecord(store, growthHolder, store.Backend().Now())
				err := store.Create(ctx, r)
				mu.Lock()
				if ids = append(ids, r.ID); err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return ids, failed
}

// redisCost is the processor time, in µs, that Redis needs for one op: the least of
// several turns, since what waking up takes depends on what else the machine does.
func (l *lab) redisCost(ctx context.Context, op func(context.Context) error) (float64, error) {
	const turns, times = 8, 500
	client, err := l.client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	least := math.Inf(1)
	for range turns {
		before, err := redisCPU(ctx, client)
		if err != nil {
			return 0, err
		}
		for range times {
			if err := op(ctx); err != nil {
				return 0, err
			}
		}
		after, err := redisCPU(ctx, client)
		if err != nil {
			return 0, err
		}
		least = min(least, (after-before)/times*1e6)
	}
	return least, nil
}

// redisCPU is what Redis has used so far of a processor, in seconds.
func redisCPU(ctx context.Context, client *redis.Client) (float64, error) {
	user, err := info(ctx, client, "cpu", "used_cpu_user_main_thread")
	if err != nil {
		return 0, err
	}
	sys, err := info(ctx, client, "cpu", "used_cpu_sys_main_thread")
	return user + sys, err
}
