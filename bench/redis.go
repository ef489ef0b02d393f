package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"taskgate/bench/load"
	"taskgate/taskroute"
	"taskgate/taskroute/redisstore"
)

// client is one of go-redis with as many connections as the gateway's own.
func (l *lab) client() (*redis.Client, error) {
	server, err := l.redis()
	if err != nil {
		return nil, err
	}
	return redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 128}), nil
}

// store is the gateway's own store over that Redis, under a prefix of its own.
func (l *lab) store(ctx context.Context, prefix string) (*taskroute.Store, error) {
	server, err := l.redis()
	if err != nil {
		return nil, err
	}
	backend, err := redisstore.Open(ctx, "redis://"+server.Addr, redisstore.Options{Prefix: prefix})
	if err != nil {
		return nil, err
	}
	return taskroute.NewStore(backend, taskroute.Options{Now: backend.Now, Tombstone: 24 * time.Hour, CacheSize: 4096})
}

var caller = taskroute.Owner{Tenant: "bench", Subject: "store"}

// newRecord is a task as the gateway would make it of a call with 600 bytes of
// parameters: about 1 KB.
func newRecord(store *taskroute.Store, holder string, now time.Time) *taskroute.Record {
	r := taskroute.NewRecord(store.NewID(), caller, taskroute.Task, holder, now)
	r.State.TTL, r.State.PollInterval = time.Hour, time.Second
	r.State.Upstream, r.State.Tool = "modern", "wait"
	r.Request.Params = []byte(`{"name":"wait","arguments":{"text":"` + strings.Repeat("x", 500) + `"},` + meta + `}`)
	return r
}

// bareCreate is the least that creating a task can be: one script that makes a
// hash of seven fields with 0.9 KB, with an expiry, unless it is there.
var bareCreate = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'rev', 1, 'status', 'working', 'owner', ARGV[1], 'created', ARGV[2], 'index', ARGV[3], 'state', ARGV[4], 'request', ARGV[5])
redis.call('PEXPIRE', KEYS[1], 3600000)
return 1`)

func bareArgs() []any {
	return []any{"bench load", 1, "1 1", strings.Repeat("s", 300), strings.Repeat("r", 600)}
}

func bareEvalSha(c *redis.Client) func(context.Context) error {
	args := bareArgs()
	return func(ctx context.Context) error {
		return bareCreate.Run(ctx, c, []string{"bare:" + taskroute.NewID()}, args...).Err()
	}
}

// benchmarked is the same script sent by redis-benchmark, which does nothing else.
// It is told how often, not how long.
func (l *lab) benchmarked(c *redis.Client, callers int) load.Case {
	const perSecond = 10_000
	return load.Case{Name: redisBenchmark, Run: func(ctx context.Context, d time.Duration) (load.Sample, error) {
		if err := bareCreate.Load(ctx, c).Err(); err != nil {
			return load.Sample{}, err
		}
		host, port, _ := net.SplitHostPort(c.Options().Addr)
		n := int(d.Seconds() * perSecond)
		args := []string{"-h", host, "-p", port, "-c", strconv.Itoa(callers), "-n", strconv.Itoa(n), "-r", "2000000000", "--csv",
			"evalsha", bareCreate.Hash(), "1", "bare:__rand_int__"}
		for _, arg := range bareArgs() {
			args = append(args, fmt.Sprint(arg))
		}
		out, err := exec.CommandContext(ctx, "redis-benchmark", args...).Output()
		if err != nil {
			return load.Sample{}, fmt.Errorf("redis-benchmark: %w", err)
		}
		return parseBenchmark(out, n)
	}}
}

// parseBenchmark reads its table: a line of names, and one with what it did, how
// often a second, and average, least, median, 95th, 99th and longest ms.
func parseBenchmark(out []byte, n int) (load.Sample, error) {
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) != 8 {
		return load.Sample{}, fmt.Errorf("redis-benchmark says %q (%v)", out, err)
	}
	var figures [3]float64
	for i, column := range []int{1, 4, 6} {
		if figures[i], err = strconv.ParseFloat(rows[1][column], 64); err != nil {
			return load.Sample{}, fmt.Errorf("redis-benchmark: %w", err)
		}
	}
	millis := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	return load.Sample{
		Count: n, Took: time.Duration(float64(n) / figures[0] * float64(time.Second)), P50: millis(figures[1]), P99: millis(figures[2]),
	}, nil
}

// enqueue is asynq's Enqueue, in a process of its own.
func (l *lab) enqueue(callers int) func(context.Context, time.Duration) (load.Sample, error) {
	return func(ctx context.Context, d time.Duration) (load.Sample, error) {
		server, err := l.redis()
		if err != nil {
			return load.Sample{}, err
		}
		start := time.Now()
		out, err := exec.CommandContext(ctx, l.program("enqueue"), server.Addr, strconv.Itoa(callers), fmt.Sprint(d.Seconds())).Output()
		if err != nil {
			return load.Sample{}, fmt.Errorf("enqueue: %w", err)
		}
		took := min(time.Since(start), d) // without starting and ending
		var each []time.Duration
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			ns, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				return load.Sample{}, fmt.Errorf("enqueue: %w", err)
			}
			each = append(each, time.Duration(ns))
		}
		return load.Of(each, took), nil
	}
}

// looped is a case of a function.
func looped(name string, callers int, f func(context.Context) error) load.Case {
	return load.Case{Name: name, Run: func(ctx context.Context, d time.Duration) (load.Sample, error) {
		return load.Loop(ctx, callers, d, f)
	}}
}

// info reads a number from Redis's INFO.
func info(ctx context.Context, c *redis.Client, section, field string) (float64, error) {
	text, err := c.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("INFO %s has no %s", section, field)
}
