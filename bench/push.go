package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"taskgate/bench/load"
	"taskgate/bench/page"
)

const (
	pushRate    = 1000 // completions a second
	pushSeconds = 5
	pushStreams = 50
)

// push is how long it takes from the answer of a server behind one gateway until
// a client that listens at another one has the end of the task.
func push(ctx context.Context, l *lab) (string, error) {
	a, err := l.ourGateway()
	if err != nil {
		return "", err
	}
	b, err := l.gateway("other")
	if err != nil {
		return "", err
	}
	defer l.stop("other")
	ids, err := pacedTasks(ctx, "http://"+a.Addr+"/mcp", pushRate*pushSeconds)
	if err != nil {
		return "", err
	}
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var wg sync.WaitGroup
	for some := range slices.Chunk(ids, len(ids)/pushStreams) {
		wg.Go(func() {
			took, err := ends(ctx, b.Addr, some)
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, took...), errors.Join(failed, err)
		})
	}
	wg.Wait()
	if failed != nil {
		return "", failed
	}
	s := load.Of(all, pushSeconds*time.Second)
	table := page.NewTable("ends of tasks a second", "told, of "+fmt.Sprint(len(ids)), "p50 ms", "p99 ms")
	table.Add(fmt.Sprint(pushRate), fmt.Sprint(s.Count), fmt.Sprintf("%.2f", s.Millis50()), fmt.Sprintf("%.2f", s.Millis99()))
	table.Add("goal", "all: "+atLeast(1, float64(s.Count)/float64(len(ids))), "≤ 5: "+atMost(5, s.Millis50()), "≤ 50: "+atMost(50, s.Millis99()))
	return table.String(), nil
}

// pacedTasks makes n tasks at the rate, each of which ends the same time after
// its beginning: when all are there and somebody listens.
func pacedTasks(ctx context.Context, url string, n int) ([]string, error) {
	const callers = 32
	took := (pushSeconds + 4) * 1000 // ms
	ids, errs := make([]string, n), make([]error, callers)
	start := time.Now()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < n && errs[c] == nil; i += callers {
				select {
				case <-time.After(time.Until(start.Add(time.Duration(i) * time.Second / pushRate))):
				case <-ctx.Done():
				}
				ids[i], errs[c] = startTask(ctx, url, took, i)
			}
		})
	}
	wg.Wait()
	return ids, errors.Join(errs...)
}

// ends listens until each of the tasks has ended, and returns how long after the
// answer of the server behind it was told of that.
func ends(ctx context.Context, addr string, tasks []string) (took []time.Duration, err error) {
	s, err := listen(ctx, addr, tasks)
	if err != nil {
		return nil, err
	}
	defer s.conn.Close()
	if err := s.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	for len(took) < len(tasks) {
		e, err := s.next()
		if err != nil {
			return nil, fmt.Errorf("after %d of %d ends: %w", len(took), len(tasks), err)
		}
		if e.Params.Status != "completed" {
			continue
		}
		text, _, _ := strings.Cut(e.Params.Result.Content[0].Text, " ")
		answered, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		took = append(took, e.at.Sub(time.Unix(0, answered)))
	}
	return took, nil
}
