package boltstore_test

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
)

// BenchmarkCreate compares a durable create with the least that bbolt itself
// could do: one Update that puts 1 kB and an index entry.
func BenchmarkCreate(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("store/callers=%d", callers), func(b *testing.B) {
			s := openBench(b)
			each(b, callers, func() error { return s.Create(b.Context(), benchDoc(s), rand.Text()) })
		})
		b.Run(fmt.Sprintf("plain/callers=%d", callers), func(b *testing.B) {
			db := openPlain(b)
			each(b, callers, func() error { return db.Update(putPlain) })
		})
	}
}

func BenchmarkGet(b *testing.B) {
	s := openBench(b)
	d := benchDoc(s)
	if err := s.Create(b.Context(), d, "n"); err != nil {
		b.Fatal(err)
	}
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			each(b, callers, func() error {
				_, err := s.Get(b.Context(), d.ID, taskroute.PartState, taskroute.PartInput, taskroute.PartOutcome)
				return err
			})
		})
	}
}

func BenchmarkReplace(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := openBench(b)
			docs := make(chan taskroute.Doc, callers)
			for range callers {
				d := benchDoc(s)
				if err := s.Create(b.Context(), d, "n"); err != nil {
					b.Fatal(err)
				}
				d.Revision = 1
				d.Parts[taskroute.PartRequest] = nil
				docs <- d
			}
			each(b, callers, func() error {
				d := <-docs
				defer func() { d.Revision++; docs <- d }()
				return s.Replace(b.Context(), d.Revision, d, rand.Text())
			})
		})
	}
}

// each runs op b.N times in all, from callers goroutines.
func each(b *testing.B, callers int, op func() error) {
	b.Helper()
	b.ResetTimer()
	todo := make(chan struct{}, b.N)
	for range b.N {
		todo <- struct{}{}
	}
	close(todo)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range todo {
				if err := op(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// benchDoc is 1 kB in all, as a usual task is.
func benchDoc(s *boltstore.Store) taskroute.Doc {
	d := doc("r1")
	d.ID = s.NewID()
	d.ExpiresAt = time.Now().Add(time.Hour)
	d.ForgetAt = d.ExpiresAt.Add(time.Hour)
	d.Parts[taskroute.PartState] = make([]byte, 450)
	d.Parts[taskroute.PartRequest] = make([]byte, 450)
	return d
}

func openBench(b *testing.B) *boltstore.Store {
	b.Helper()
	s, err := boltstore.Open(filepath.Join(b.TempDir(), "tasks.db"), time.Now)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func openPlain(b *testing.B) *bbolt.DB {
	b.Helper()
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "plain.db"), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}

func putPlain(tx *bbolt.Tx) error {
	tasks, err := tx.CreateBucketIfNotExists([]byte("tasks"))
	if err != nil {
		return err
	}
	expiry, err := tx.CreateBucketIfNotExists([]byte("expiry"))
	if err != nil {
		return err
	}
	id := []byte(rand.Text())
	if err := tasks.Put(id, make([]byte, 1000)); err != nil {
		return err
	}
	return expiry.Put(append(binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixMilli())), id...), nil)
}
