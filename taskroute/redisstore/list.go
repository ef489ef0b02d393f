package redisstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// List implements taskroute.Backend: it goes through the keys of one master
// after the other, in the order of their addresses.
func (s *Store) List(ctx context.Context, cursor string, limit int) (ids []string, next string, err error) {
	at, err := parsePosition(cursor)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	masters, err := s.masters(ctx)
	if err != nil {
		return nil, "", err
	}
	addresses := slices.Sorted(maps.Keys(masters))
	i, found := slices.BinarySearch(addresses, at.of)
	if i == len(addresses) { // the last one has gone meanwhile
		return nil, "", nil
	}
	if !found {
		at = position{of: addresses[i]}
	}
	keys, pageEnd, err := masters[at.of].Scan(ctx, at.cursor, s.keys.anyTask(), int64(limit)).Result()
	if err != nil {
		return nil, "", err
	}
	for _, key := range keys {
		ids = append(ids, s.keys.idOf(key))
	}
	switch {
	case pageEnd != 0:
		next = position{of: at.of, cursor: pageEnd}.String()
	case i+1 < len(addresses):
		next = position{of: addresses[i+1]}.String()
	}
	return ids, next, nil
}

// masters are the servers that share the keys, by address; "" is the only one.
func (s *Store) masters(ctx context.Context) (map[string]redis.Cmdable, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return map[string]redis.Cmdable{"": s.client}, ctx.Err()
	}
	var mu sync.Mutex
	masters := map[string]redis.Cmdable{}
	err := cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters[master.Options().Addr] = master
		return nil
	})
	return masters, err
}

var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// anyTask is a pattern for the keys of all tasks.
func (k keys) anyTask() string { return globEscape.Replace(k.prefix) + "task:{*}" }

// idOf is the way back from task.
func (k keys) idOf(task string) string {
	return strings.TrimSuffix(strings.TrimPrefix(task, k.prefix+"task:{"), "}")
}
