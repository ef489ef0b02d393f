package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"taskgate/bench/load"
	"taskgate/bench/page"
)

// taskMs is how long a call runs whose creation is measured.
const taskMs = 200

// create is what it takes until a task is durable and its handle is out, and the
// store's part of that.
func create(ctx context.Context, l *lab) (string, error) {
	handle, err := handles(ctx, l)
	if err != nil {
		return "", err
	}
	store, err := creates(ctx, l)
	return handle + "\n" + store, err
}

const (
	evalSha        = "bare EVALSHA"
	redisBenchmark = "redis-benchmark"
	passed         = "pass-through"
	toHandle       = "POST to handle"
	oursStore      = "taskgate's store"
	theirsStore    = "asynq Enqueue"
)

// handles compares the whole way with that of a call which passes, one at a time.
func handles(ctx context.Context, l *lab) (string, error) {
	client, err := l.client()
	if err != nil {
		return "", err
	}
	defer client.Close()
	pass := proxy{name: passed, start: l.ourGateway, path: "/mcp"}
	passes, err := l.wrk(ctx, pass, 1, pass.echoes(ctx))
	if err != nil {
		return "", err
	}
	creates, err := l.wrk(ctx, proxy{name: toHandle, start: l.ourGateway, path: "/mcp"}, 1, func(url string) ([]*http.Request, error) {
		return calls(url, "wait", fmt.Sprintf(`{"ms":%d}`, taskMs), distinct), nil
	})
	if err != nil {
		return "", err
	}
	s, err := load.Interleave(ctx, []load.Case{passes, l.benchmarked(client, 1), looped(evalSha, 1, bareEvalSha(client)), creates}, l.opts.rounds, l.opts.turn)
	if err != nil {
		return "", err
	}
	table := page.NewTable("what, one at a time", "per second", "p50 ms", "p99 ms")
	for _, name := range []string{passed, redisBenchmark, evalSha, toHandle} {
		table.Add(name, fmt.Sprintf("%.0f", s.Median(name, load.Sample.PerSecond)), fmt.Sprintf("%.3f", s.Median(name, load.Sample.Millis50)),
			fmt.Sprintf("%.2f", s.Median(name, load.Sample.Millis99)))
	}
	added := s.Above(toHandle, passed, load.Sample.Millis50)
	return fmt.Sprintf("%s\nA handle takes as long as a call that passes and %s × a bare EVALSHA, or %s × one of redis-benchmark (goal: ≤ 1.3).\n", table,
		atMost(1.3, added/s.Median(evalSha, load.Sample.Millis50)), atMost(1.3, added/s.Median(redisBenchmark, load.Sample.Millis50))), nil
}

// creates compares the store with asynq and with the bare script.
func creates(ctx context.Context, l *lab) (string, error) {
	client, err := l.client()
	if err != nil {
		return "", err
	}
	defer client.Close()
	store, err := l.store(ctx, "creates")
	if err != nil {
		return "", err
	}
	defer store.Backend().Close()
	make := func(ctx context.Context) error {
		return store.Create(ctx, newRecord(store, "bench", store.Backend().Now()))
	}
	table := page.NewTable("callers", redisBenchmark+"/s", evalSha+"/s", theirsStore+"/s", oursStore+"/s", "p50 ms of the four", "≥ 0.9 × asynq", "of bare EVALSHA")
	for _, callers := range []int{1, 16, 64} {
		s, err := load.Interleave(ctx, []load.Case{
			l.benchmarked(client, callers), looped(evalSha, callers, bareEvalSha(client)), {Name: theirsStore, Run: l.enqueue(callers)}, looped(oursStore, callers, make),
		}, l.opts.rounds, l.opts.turn)
		if err != nil {
			return "", err
		}
		cells := []string{fmt.Sprint(callers)}
		var p50 []string
		for _, name := range []string{redisBenchmark, evalSha, theirsStore, oursStore} {
			cells = append(cells, fmt.Sprintf("%.0f", s.Median(name, load.Sample.PerSecond)))
			p50 = append(p50, fmt.Sprintf("%.3f", s.Median(name, load.Sample.Millis50)))
		}
		table.Add(append(cells, strings.Join(p50, " / "), atLeast(0.9, s.Ratio(oursStore, theirsStore, load.Sample.PerSecond)),
			fmt.Sprintf("%.2f", s.Ratio(oursStore, evalSha, load.Sample.PerSecond)))...)
		if err := client.FlushAll(ctx).Err(); err != nil {
			return "", err
		}
	}
	return table.String(), nil
}
