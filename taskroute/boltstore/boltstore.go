// Package boltstore is a taskroute.Backend in one file (bbolt), for a gateway
// that runs as a single process. What is acknowledged has been synced to the
// disk; a kill of the process loses none of it.
package boltstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"taskgate/taskroute"
)

// Store is a taskroute.Backend in a bbolt file.
type Store struct {
	db     *bbolt.DB
	now    func() time.Time
	leases taskroute.Leases // of this process; an earlier one's are over
	commit *committer
	close  func() error
}

var _ taskroute.Backend = (*Store)(nil)

// Open opens the file at path for this process alone and creates it, and its
// directory, when there is none. now is the clock of leases.
func Open(path string, now func() time.Time) (*Store, error) {
	db, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("open task store: %w", err)
	}
	s := &Store{db: db, now: now, commit: newCommitter(db)}
	s.close = sync.OnceValue(func() error {
		s.commit.stop()
		return db.Close()
	})
	return s, nil
}

// Heartbeat implements taskroute.Backend.
func (s *Store) Heartbeat(ctx context.Context, holder string, lease time.Duration) (changed []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.leases.Heartbeat(holder, lease, s.now())
}

// Retire implements taskroute.Backend.
func (s *Store) Retire(ctx context.Context, holder string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.leases.Retire(holder, s.now())
	return nil
}

// Hints implements taskroute.Backend: there is no other process.
func (s *Store) Hints(ctx context.Context, _ func(id string)) error {
	<-ctx.Done()
	return ctx.Err()
}

// Now implements taskroute.Backend.
func (s *Store) Now() time.Time { return s.now() }

// Ping implements taskroute.Backend.
func (s *Store) Ping(ctx context.Context) error {
	return s.view(ctx, func(*bbolt.Tx) error { return nil })
}

func (s *Store) view(ctx context.Context, read func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.db.View(read)
}

// Close implements taskroute.Backend. Writes that were accepted are finished.
func (s *Store) Close() error { return s.close() }
