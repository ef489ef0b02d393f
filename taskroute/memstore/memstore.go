// Package memstore is a taskroute.Backend in memory: for tests, and for a
// gateway whose tasks may end with its process.
package memstore

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"taskgate/taskroute"
)

// Store is a taskroute.Backend in memory.
type Store struct {
	now    func() time.Time
	leases taskroute.Leases

	mu    sync.Mutex
	docs  map[string]entry
	tombs map[string]tombstone
	used  map[string]taskroute.Usage // by owner
}

type entry struct {
	doc     taskroute.Doc
	nonces  []string // of the latest writes
	written time.Time
}

type tombstone struct {
	owner    string
	forgetAt time.Time
}

var _ taskroute.Backend = (*Store)(nil)

// New returns an empty Store; now is the clock of its leases.
func New(now func() time.Time) *Store {
	return &Store{now: now, docs: map[string]entry{}, tombs: map[string]tombstone{}, used: map[string]taskroute.Usage{}}
}

// NewID implements taskroute.Backend.
func (s *Store) NewID() string { return taskroute.NewID() }

// Create implements taskroute.Backend.
func (s *Store) Create(ctx context.Context, d taskroute.Doc, nonce string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.docs[d.ID]; ok {
		if slices.Contains(e.nonces, nonce) {
			return nil
		}
		return taskroute.ErrExists
	}
	if err := d.Within(s.used[d.Owner]); err != nil {
		return err
	}
	d.Revision, d.Parts = 1, clone(d.Parts)
	s.put(entry{doc: d, nonces: []string{nonce}, written: s.now()})
	return nil
}

// put and drop keep the books of owners.
func (s *Store) put(e entry) {
	s.drop(e.doc.ID)
	s.docs[e.doc.ID] = e
	s.account(e.doc, 1)
}

func (s *Store) drop(id string) {
	if e, ok := s.docs[id]; ok {
		delete(s.docs, id)
		s.account(e.doc, -1)
	}
}

// account adds the document to what its owner has, times sign.
func (s *Store) account(d taskroute.Doc, sign int) {
	if d.Owner == "" {
		return
	}
	used := s.used[d.Owner]
	used.Bytes += int64(sign) * d.Size()
	if d.Open {
		used.Open += sign
	}
	s.used[d.Owner] = used
	if used == (taskroute.Usage{}) {
		delete(s.used, d.Owner)
	}
}

// Get implements taskroute.Backend.
func (s *Store) Get(ctx context.Context, id string, parts ...taskroute.Part) (taskroute.Doc, error) {
	if err := ctx.Err(); err != nil {
		return taskroute.Doc{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.docs[id]
	if !ok {
		return taskroute.Doc{Owner: s.tombs[id].owner}, taskroute.ErrNotFound
	}
	d := taskroute.Doc{ID: id, Revision: e.doc.Revision}
	for _, p := range parts {
		d.Parts[p] = slices.Clone(e.doc.Parts[p])
	}
	return d, nil
}

// Revisions implements taskroute.Backend.
func (s *Store) Revisions(ctx context.Context, ids []string) ([]uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]uint64, len(ids))
	for i, id := range ids {
		if e, ok := s.docs[id]; ok {
			all[i] = e.doc.Revision
		}
	}
	return all, nil
}

// Replace implements taskroute.Backend.
func (s *Store) Replace(ctx context.Context, prev uint64, d taskroute.Doc, nonce string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.docs[d.ID]
	switch {
	case !ok:
		return taskroute.ErrNotFound
	case slices.Contains(e.nonces, nonce):
		return nil
	case e.doc.Revision != prev:
		return taskroute.ErrConflict
	}
	parts := clone(d.Parts)
	for p := range parts {
		if parts[p] == nil {
			parts[p] = e.doc.Parts[p]
		}
	}
	d.Revision, d.Parts = prev+1, parts
	nonces := append(e.nonces, nonce)
	nonces = nonces[max(0, len(nonces)-taskroute.NonceMemory):]
	s.put(entry{doc: d, nonces: nonces, written: s.now()})
	s.leases.Tell(d.Tell, d.ID)
	return nil
}

func clone(parts [taskroute.NumParts][]byte) [taskroute.NumParts][]byte {
	for p := range parts {
		parts[p] = slices.Clone(parts[p])
	}
	return parts
}

// Orphans implements taskroute.Backend. The cursor is the last id of the page.
func (s *Store) Orphans(ctx context.Context, cursor string, limit int) (orphans []taskroute.Orphan, next string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, id := range slices.Sorted(maps.Keys(s.docs)) {
		e := s.docs[id]
		if id <= cursor || !e.doc.Open || !s.leases.Orphaned(e.doc.Holder, e.doc.Runnable, e.written, now) {
			continue
		}
		if len(orphans) == limit {
			return orphans, orphans[limit-1].ID, nil
		}
		orphans = append(orphans, taskroute.Orphan{ID: id, Holder: e.doc.Holder})
	}
	return orphans, "", nil
}

// List implements taskroute.Backend. The cursor is the last id of the page.
func (s *Store) List(ctx context.Context, cursor string, limit int) (ids []string, next string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, next = page(s.docs, cursor, limit, func(entry) bool { return true })
	return ids, next, nil
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

// Usage implements taskroute.Backend.
func (s *Store) Usage(ctx context.Context, owner string) (taskroute.Usage, error) {
	if err := ctx.Err(); err != nil {
		return taskroute.Usage{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[owner], nil
}

// Owned implements taskroute.Backend. The cursor is the last id of the page.
func (s *Store) Owned(ctx context.Context, owner, cursor string, limit int) (ids []string, next string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	if cursor != "" && !taskroute.ValidID(cursor) {
		return nil, "", taskroute.ErrCursor
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, next = page(s.docs, cursor, limit, func(e entry) bool { return e.doc.Owner == owner && owner != "" })
	return ids, next, nil
}

// page is the ids of up to limit documents that pass, after that of the cursor.
func page(docs map[string]entry, cursor string, limit int, pass func(entry) bool) (ids []string, next string) {
	for id, e := range docs {
		if id > cursor && pass(e) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) > limit {
		ids = ids[:limit]
		next = ids[limit-1]
	}
	return ids, next
}

// Hints implements taskroute.Backend: there is no other process.
func (s *Store) Hints(ctx context.Context, _ func(id string)) error {
	<-ctx.Done()
	return ctx.Err()
}

// Collect implements taskroute.Backend.
func (s *Store) Collect(ctx context.Context, now time.Time) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for id, e := range s.docs {
		if at := e.doc.ExpiresAt; !at.IsZero() && !now.Before(at) {
			s.tombs[id] = tombstone{e.doc.Owner, e.doc.ForgetAt}
			s.drop(id)
			n++
		}
	}
	maps.DeleteFunc(s.tombs, func(_ string, t tombstone) bool { return !now.Before(t.forgetAt) })
	return n, nil
}

// Now implements taskroute.Backend.
func (s *Store) Now() time.Time { return s.now() }

// Ping implements taskroute.Backend.
func (s *Store) Ping(ctx context.Context) error { return ctx.Err() }

// Close implements taskroute.Backend. There is nothing to release.
func (s *Store) Close() error { return nil }
