package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"taskgate/bench/load"
	"taskgate/bench/page"
	"taskgate/taskroute"
)

const (
	getWorking   = "tasks/get, working"
	getCompleted = "tasks/get, completed, 1 KB"
	hgetAll      = "bare HGETALL"
	storeGet     = "taskgate's store, Get"
	tasksAsked   = 256 // different tasks that are asked for
)

// get is tasks/get, over HTTP and in the store.
func get(ctx context.Context, l *lab) (string, error) {
	whole, err := gets(ctx, l)
	if err != nil {
		return "", err
	}
	store, err := storeGets(ctx, l)
	return whole + "\n" + store, err
}

// gets compares tasks/get with a call that passes.
func gets(ctx context.Context, l *lab) (string, error) {
	const conns = 64
	pass := proxy{name: passed, start: l.ourGateway, path: "/mcp"}
	passes, err := l.wrk(ctx, pass, conns, pass.echoes(ctx))
	if err != nil {
		return "", err
	}
	cases := []load.Case{passes}
	names := []string{passed, getWorking, getCompleted}
	for i, ms := range []int{600_000, 0} {
		c, err := l.wrk(ctx, proxy{name: names[i+1], start: l.ourGateway, path: "/mcp"}, conns, func(url string) ([]*http.Request, error) {
			return l.getsOf(ctx, url, ms)
		})
		if err != nil {
			return "", err
		}
		cases = append(cases, c)
	}
	s, err := load.Interleave(ctx, cases, l.opts.rounds, l.opts.turn)
	if err != nil {
		return "", err
	}
	table := page.NewTable("what, 64 connections", "requests/s", "p50 ms", "p99 ms", "≥ 1.2 × pass-through")
	for _, name := range names {
		goal := ""
		if name != passed {
			goal = atLeast(1.2, s.Ratio(name, passed, load.Sample.PerSecond))
		}
		table.Add(name, fmt.Sprintf("%.0f", s.Median(name, load.Sample.PerSecond)), fmt.Sprintf("%.3f", s.Median(name, load.Sample.Millis50)),
			fmt.Sprintf("%.2f", s.Median(name, load.Sample.Millis99)), goal)
	}
	return table.String(), nil
}

// getsOf makes tasks that take ms and returns requests for them, once they have
// ended if they are to.
func (l *lab) getsOf(ctx context.Context, url string, ms int) ([]*http.Request, error) {
	var all []*http.Request
	for id := range tasksAsked {
		task, err := startTask(ctx, url, ms, id)
		if err != nil {
			return nil, err
		}
		all = append(all, modern(url, "tasks/get", task, id+1, fmt.Sprintf(`"taskId":%q`, task)))
	}
	if ms > 0 {
		return all, nil
	}
	for _, r := range all {
		if err := waitCompleted(ctx, r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// startTask makes a task of a call that takes ms, and returns its id.
func startTask(ctx context.Context, url string, ms, id int) (string, error) {
	handle, err := result(ctx, call(url, "wait", fmt.Sprintf(`{"ms":%d}`, ms), id+1))
	var task struct{ TaskID string }
	if err == nil {
		err = json.Unmarshal(handle, &task)
	}
	if err == nil && task.TaskID == "" {
		err = fmt.Errorf("no handle: %s", handle)
	}
	return task.TaskID, err
}

func waitCompleted(ctx context.Context, r *http.Request) error {
	for {
		got, err := result(ctx, r)
		var task struct{ Status string }
		if err == nil {
			err = json.Unmarshal(got, &task)
		}
		if err != nil || task.Status == "completed" {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// storeGets compares the store's Get of a working task with the bare command.
func storeGets(ctx context.Context, l *lab) (string, error) {
	client, err := l.client()
	if err != nil {
		return "", err
	}
	defer client.Close()
	store, err := l.store(ctx, "gets")
	if err != nil {
		return "", err
	}
	defer store.Backend().Close()
	var ids, keys []string
	for range tasksAsked {
		r, key := newRecord(store, "bench", store.Backend().Now()), "bare:"+taskroute.NewID()
		if err := store.Create(ctx, r); err != nil {
			return "", err
		}
		if err := bareCreate.Run(ctx, client, []string{key}, bareArgs()...).Err(); err != nil {
			return "", err
		}
		ids, keys = append(ids, r.ID), append(keys, key)
	}
	s, err := load.Interleave(ctx, []load.Case{
		looped(hgetAll, 64, hgetAllOf(client, keys)), looped(storeGet, 64, getOf(store, ids)),
	}, l.opts.rounds, l.opts.turn)
	if err != nil {
		return "", err
	}
	table := page.NewTable("what, 64 callers", "per second", "p50 ms", "≥ 0.7 × bare HGETALL")
	table.Add(hgetAll, fmt.Sprintf("%.0f", s.Median(hgetAll, load.Sample.PerSecond)), fmt.Sprintf("%.3f", s.Median(hgetAll, load.Sample.Millis50)), "")
	table.Add(storeGet, fmt.Sprintf("%.0f", s.Median(storeGet, load.Sample.PerSecond)), fmt.Sprintf("%.3f", s.Median(storeGet, load.Sample.Millis50)),
		atLeast(0.7, s.Ratio(storeGet, hgetAll, load.Sample.PerSecond)))
	return table.String(), nil
}

func hgetAllOf(client *redis.Client, keys []string) func(context.Context) error {
	next := roundRobin(keys)
	return func(ctx context.Context) error { return client.HGetAll(ctx, next()).Err() }
}

func getOf(store *taskroute.Store, ids []string) func(context.Context) error {
	next := roundRobin(ids)
	return func(ctx context.Context) error {
		_, err := store.Get(ctx, taskroute.By{Owner: caller, Kind: taskroute.Task}, next())
		return err
	}
}

// roundRobin gives one after the other, to several goroutines.
func roundRobin(all []string) func() string {
	var n atomic.Uint64
	return func() string { return all[n.Add(1)%uint64(len(all))] }
}
