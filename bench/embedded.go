package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"taskgate/bench/load"
	"taskgate/bench/page"
	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
)

// embedded compares a durable create in the file with the least that bbolt can
// do for one: an Update with 1 KB and an index entry.
func embedded(ctx context.Context, l *lab) (string, error) {
	const plain = "bbolt.Update"
	dir, err := os.MkdirTemp(l.dir, "embedded-")
	if err != nil {
		return "", err
	}
	backend, err := boltstore.Open(filepath.Join(dir, "tasks.db"), time.Now)
	if err != nil {
		return "", err
	}
	defer backend.Close()
	store, err := taskroute.NewStore(backend, taskroute.Options{Now: time.Now, Tombstone: time.Hour, CacheSize: 1})
	if err != nil {
		return "", err
	}
	db, err := bbolt.Open(filepath.Join(dir, "plain.db"), 0o600, nil)
	if err != nil {
		return "", err
	}
	defer db.Close()
	table := page.NewTable("callers", plain+", creates/s", "taskgate, creates/s", plain+", p50 ms", "taskgate, p50 ms", "goal")
	for _, callers := range []int{1, 16, 64} {
		s, err := load.Interleave(ctx, []load.Case{
			looped(plain, callers, plainCreate(db)),
			looped(oursStore, callers, func(ctx context.Context) error { return store.Create(ctx, newRecord(store, "bench", time.Now())) }),
		}, l.opts.rounds, l.opts.turn)
		if err != nil {
			return "", err
		}
		goal := ""
		switch callers {
		case 1:
			goal = "p50 ≤ 1.4 ×: " + atMost(1.4, s.Ratio(oursStore, plain, load.Sample.Millis50))
		case 64:
			goal = "throughput ≥ 6 ×: " + atLeast(6, s.Ratio(oursStore, plain, load.Sample.PerSecond))
		}
		table.Add(fmt.Sprint(callers), fmt.Sprintf("%.0f", s.Median(plain, load.Sample.PerSecond)), fmt.Sprintf("%.0f", s.Median(oursStore, load.Sample.PerSecond)),
			fmt.Sprintf("%.2f", s.Median(plain, load.Sample.Millis50)), fmt.Sprintf("%.2f", s.Median(oursStore, load.Sample.Millis50)), goal)
	}
	return table.String(), nil
}

func plainCreate(db *bbolt.DB) func(context.Context) error {
	value := make([]byte, 1<<10)
	var n atomic.Uint64
	return func(context.Context) error {
		return db.Update(func(tx *bbolt.Tx) error {
			tasks, err := tx.CreateBucketIfNotExists([]byte("tasks"))
			if err != nil {
				return err
			}
			expiry, err := tx.CreateBucketIfNotExists([]byte("expiry"))
			if err != nil {
				return err
			}
			id := []byte(taskroute.NewID())
			if err := tasks.Put(id, value); err != nil {
				return err
			}
			return expiry.Put(append(binary.BigEndian.AppendUint64(nil, n.Add(1)), id...), nil)
		})
	}
}
