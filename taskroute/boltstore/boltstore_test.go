package boltstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
	"taskgate/taskroute/storetest"
)

func TestBackend(t *testing.T) {
	storetest.Run(t, func(t *testing.T) taskroute.Backend {
		return open(t, filepath.Join(t.TempDir(), "tasks.db"))
	})
}

// TestPagesAreFull: documents and index entries are made at the end of their
// buckets, so that one commit writes few pages.
func TestPagesAreFull(t *testing.T) {
	const tasks, callers = 2048, 64
	path := filepath.Join(t.TempDir(), "tasks.db")
	s, err := boltstore.Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var writers errgroup.Group
	for range callers {
		writers.Go(func() error {
			for range tasks / callers {
				d := doc("r1")
				d.ID, d.ExpiresAt = s.NewID(), time.Now().Add(time.Hour)
				d.Parts[taskroute.PartState] = make([]byte, 200)
				if err := s.Create(t.Context(), d, rand.Text()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := errors.Join(writers.Wait(), s.Close()); err != nil {
		t.Fatal(err)
	}
	change(t, path, func(tx *bbolt.Tx) error {
		for _, bucket := range []string{"tasks", "held", "open", "expiry"} {
			stats := tx.Bucket([]byte(bucket)).Stats()
			if used := 100 * stats.LeafInuse / stats.LeafAlloc; used < 75 {
				t.Errorf("pages of %s are used to %d %%", bucket, used)
			}
		}
		return nil
	})
}

// open opens the store at path and checks at the end of the test that it closes
// in good health.
func open(t *testing.T, path string) *boltstore.Store {
	t.Helper()
	s, err := boltstore.Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		wantHealthy(t, path)
	})
	return s
}

func wantHealthy(t *testing.T, path string) boltstore.Health {
	t.Helper()
	h, err := boltstore.Check(context.Background(), path) // the test's own is over at cleanup
	if err != nil {
		t.Errorf("check: %v", err)
	}
	for _, problem := range h.Problems {
		t.Errorf("check: %v", problem)
	}
	return h
}
