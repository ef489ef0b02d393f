package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"taskgate/bench/page"
)

// startup is the time until a gateway answers, what it then needs, and its size.
func startup(ctx context.Context, l *lab) (string, error) {
	const starts = 7
	var took []time.Duration
	var rss []int64
	for range starts {
		first, idle, err := l.startOnce(ctx)
		if err != nil {
			return "", err
		}
		took, rss = append(took, first), append(rss, idle)
	}
	size, err := os.Stat(l.program("gateway"))
	if err != nil {
		return "", err
	}
	first, idle := middle(took), float64(middle(rss))/1e6
	table := page.NewTable("what", "measured", "goal")
	table.Add(fmt.Sprintf("start to first answer, median of %d", starts), fmt.Sprintf("%d ms", first.Milliseconds()), "≤ 100 ms: "+atMost(100, float64(first.Milliseconds())))
	table.Add("idle memory (RSS)", fmt.Sprintf("%.1f MB", idle), "≤ 25 MB: "+atMost(25, idle))
	table.Add("static binary, stripped", fmt.Sprintf("%.1f MB", float64(size.Size())/1e6), "≤ 25 MB: "+atMost(25, float64(size.Size())/1e6))
	return table.String(), nil
}

func middle[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// startOnce starts a gateway of its own and ends it again.
func (l *lab) startOnce(ctx context.Context) (first time.Duration, idle int64, err error) {
	if _, err := l.backend(); err != nil { // so that it does not count
		return 0, 0, err
	}
	if _, err := l.redis(); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	gateway, err := l.gateway("startup")
	if err != nil {
		return 0, 0, err
	}
	defer l.stop("startup")
	if _, err := result(ctx, call("http://"+gateway.Addr+"/mcp", "echo", text, 1)); err != nil {
		return 0, 0, err
	}
	first = time.Since(began)
	select { // what starting took is given back meanwhile, or is not
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	return first, gateway.RSS(), ctx.Err()
}
