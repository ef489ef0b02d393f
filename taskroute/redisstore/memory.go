package redisstore

import (
	"bufio"
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// fullPercent of maxmemory is where new tasks are refused. A Redis that is
	// full under "noeviction" also refuses to complete the old ones, so some room
	// is kept for that.
	fullPercent = 85
	// memoryInterval is how old the last look may be.
	memoryInterval = time.Second
	// memoryPatience is how long a create may wait for the look.
	memoryPatience = 250 * time.Millisecond
)

// memory is the last look at how full the servers are.
type memory struct {
	looked atomic.Int64 // ms by the server's clock
	full   atomic.Bool
}

// isFull tells whether any server is. One caller in a memoryInterval asks, the
// others take the last answer; no answer is "no", since a full Redis says so.
func (m *memory) isFull(ctx context.Context, s *Store) bool {
	now, looked := s.clock.millis(), m.looked.Load()
	if now-looked >= memoryInterval.Milliseconds() && m.looked.CompareAndSwap(looked, now) {
		ctx, cancel := context.WithTimeout(ctx, memoryPatience)
		defer cancel()
		full := false
		err := s.eachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			info, err := readInfo(ctx, c, "memory")
			full = full || info.isFull()
			return err
		})
		m.full.Store(full && err == nil)
	}
	return m.full.Load()
}

// eachMaster calls f for each master, one after the other.
func (s *Store) eachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		var turn sync.Mutex // the library calls for all at once
		return c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			turn.Lock()
			defer turn.Unlock()
			return f(ctx, c)
		})
	case *redis.Client:
		return f(ctx, c)
	}
	return nil
}

// info is what the INFO command says, by name.
type info map[string]string

func readInfo(ctx context.Context, c *redis.Client, sections ...string) (info, error) {
	text, err := c.Info(ctx, sections...).Result()
	if err != nil {
		return nil, err
	}
	found := info{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), ":"); ok {
			found[name] = value
		}
	}
	return found, nil
}

func (i info) number(name string) int64 {
	n, err := strconv.ParseInt(i[name], 10, 64)
	if err != nil {
		return 0 // a server that does not say; then there is no limit to watch
	}
	return n
}

func (i info) isFull() bool {
	limit := i.number("maxmemory")
	return limit > 0 && i.number("used_memory") > limit/100*fullPercent
}
