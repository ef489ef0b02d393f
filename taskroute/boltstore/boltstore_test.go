package boltstore_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
	"taskgate/taskroute/storetest"
)

func TestBackend(t *testing.T) {
	storetest.Run(t, func(t *testing.T) taskroute.Backend {
		return open(t, filepath.Join(t.TempDir(), "tasks.db"))
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
