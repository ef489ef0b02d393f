package taskroute

import (
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"taskgate/internal/seal"
)

// Errors of Store beyond those of Backend.
var (
	// ErrMalformed: no id of this form was ever given out.
	ErrMalformed = errors.New("malformed task id")
	// ErrExpired is told to the owner only.
	ErrExpired = errors.New("task has expired")
	// ErrUnreadable: what is stored of the task was damaged, tampered with, or
	// encrypted with a key that this gateway does not have.
	ErrUnreadable = errors.New("stored task cannot be read")
)

// By says on whose behalf, and as what, a record is reached. A record of
// another owner or kind is as unknown as one that never was (contract 4).
type By struct {
	Owner Owner
	Kind  Kind
}

// mayReach is the owner rule.
func (by By) mayReach(s State) bool {
	shared := s.Shared && s.Kind == Task && s.Owner.Tenant == by.Owner.Tenant
	return s.Kind == by.Kind && (s.Owner == by.Owner || shared)
}

// Options of a Store.
type Options struct {
	// Now is the clock; it decides expiry.
	Now func() time.Time
	// Tombstone is how long the owner of an expired record is still told so.
	Tombstone time.Duration
	// Limit is what each owner may have; members of 0 mean no limit.
	Limit Usage
	// CacheSize is how many terminal records are kept in memory.
	CacheSize int
	// Seal encrypts the parts of records on their way to the backend; nil: they
	// are stored as they are.
	Seal *seal.Ring
	// Ended is told of every record that has ended by a write of this Store, and
	// must not change it; nil: nobody is. When the reply to that write is lost for
	// good, it may not be told.
	Ended func(*Record)
}

// Store keeps records in a Backend: the owner rule, expiry, the one
// compare-and-swap loop and the cache of terminal records live here.
type Store struct {
	backend  Backend
	opts     Options
	terminal *lru.Cache[string, *Record] // immutable, so it may be served
	watchers *watchers
}

// NewStore returns a Store over backend.
func NewStore(backend Backend, opts Options) (*Store, error) {
	cache, err := lru.New[string, *Record](max(opts.CacheSize, 1))
	if err != nil {
		return nil, fmt.Errorf("terminal cache: %w", err)
	}
	return &Store{backend: backend, opts: opts, terminal: cache, watchers: newWatchers()}, nil
}

// NewID is an id for a new record, in the form that the backend wants.
func (s *Store) NewID() string { return s.backend.NewID() }

// Create stores a new record. When it returns nil, tasks/get resolves the id
// at every replica (contract 3). Errors: ErrFull, *OverLimitError.
func (s *Store) Create(ctx context.Context, r *Record) error {
	parts := allParts
	if r.Input.isZero() {
		parts &^= partInput
	}
	d, err := s.encode(r, parts)
	if err != nil {
		return err
	}
	d.Limit = s.opts.Limit
	if err := s.backend.Create(ctx, d, newNonce()); err != nil {
		return fmt.Errorf("create task: %w", err)
	}
	r.Revision, r.dirty = 1, 0 // nobody can have waited for it, and its maker knows
	return nil
}

// Get returns the record without its Request. The result is shared: read only.
// Errors: ErrMalformed, ErrNotFound, ErrExpired, ErrUnreadable.
func (s *Store) Get(ctx context.Context, by By, id string) (*Record, error) {
	if !ValidID(id) {
		return nil, ErrMalformed
	}
	r, ok := s.terminal.Get(id)
	if !ok {
		var err error
		if r, err = s.load(ctx, id, PartState, PartInput, PartOutcome); err != nil {
			return nil, ownersView(by, err)
		}
	}
	if err := s.admit(by, r); err != nil {
		return nil, err
	}
	s.remember(r)
	return r, nil
}

// Revisions tells at which revision each record is; 0: it is not there.
func (s *Store) Revisions(ctx context.Context, ids []string) ([]uint64, error) {
	all, err := s.backend.Revisions(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read revisions: %w", err)
	}
	return all, nil
}

// buriedError is ErrNotFound for a record that has left a tombstone.
type buriedError struct{ owner Owner }

func (*buriedError) Error() string { return ErrNotFound.Error() }
func (*buriedError) Unwrap() error { return ErrNotFound }

// unreadableError is ErrUnreadable for a record whose state could be read.
type unreadableError struct {
	state State
	err   error
}

func (e *unreadableError) Error() string { return e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// ownersView tells the owner, and nobody else, that a task has expired, or that
// it cannot be read; unless that goes for the owner too.
func ownersView(by By, err error) error {
	var unreadable *unreadableError
	if errors.As(err, &unreadable) && !by.mayReach(unreadable.state) {
		return ErrNotFound
	}
	var buried *buriedError
	if errors.As(err, &buried) && buried.owner == by.Owner && by.Kind == Task {
		return ErrExpired
	}
	if errors.Is(err, ErrNotFound) {
		return ErrNotFound
	}
	return err
}

// admit is the owner rule for a record that is still there. That it has expired
// is told to the owner only. One whose tombstone would be gone too is unknown,
// even when the backend has not collected it yet.
func (s *Store) admit(by By, r *Record) error {
	if !by.mayReach(r.State) {
		return ErrNotFound
	}
	now := s.opts.Now()
	if !r.State.Expired(now) {
		return nil
	}
	s.terminal.Remove(r.ID)
	if by.Owner != r.State.Owner || r.State.Expired(now.Add(-s.tombstone(r))) {
		return ErrNotFound
	}
	return ErrExpired
}

// tombstone is how long an expiry is remembered. The client of a held call knows
// no task that could have expired.
func (s *Store) tombstone(r *Record) time.Duration {
	if r.State.Kind == Held {
		return 0
	}
	return s.opts.Tombstone
}

// Load returns the whole record for the gateway's own work, whoever owns it.
// It is not for handlers of client requests.
func (s *Store) Load(ctx context.Context, id string) (*Record, error) {
	return s.load(ctx, id, PartState, PartInput, PartOutcome, PartRequest)
}

func (s *Store) load(ctx context.Context, id string, parts ...Part) (*Record, error) {
	d, err := s.backend.Get(ctx, id, parts...)
	if errors.Is(err, ErrNotFound) && d.Owner != "" {
		err = &buriedError{parseOwner(d.Owner)}
	}
	if err != nil {
		return nil, fmt.Errorf("read task: %w", err)
	}
	return s.decode(d)
}

// Update applies change to the record on behalf of by and stores the outcome,
// reading again and repeating when somebody else was faster. A change that
// leaves the record as it was writes nothing. An error of change ends it, and
// comes with the record; one of Get comes without.
func (s *Store) Update(ctx context.Context, by By, id string, change func(*Record) error) (*Record, error) {
	if !ValidID(id) {
		return nil, ErrMalformed
	}
	var refused error
	r, err := s.swap(ctx, id, func(r *Record) error {
		if refused = s.admit(by, r); refused != nil {
			return refused
		}
		r.tell = r.State.Holder // whose call runs, perhaps at another replica
		return change(r)
	})
	if refused != nil {
		return nil, refused
	}
	if r == nil {
		return nil, ownersView(by, err)
	}
	return r, err
}

// UpdateHeld is Update for the replica that runs the call: it fails with
// ErrFenced once somebody else has claimed the record.
func (s *Store) UpdateHeld(ctx context.Context, id, holder string, epoch int64, change func(*Record) error) (*Record, error) {
	return s.UpdateAny(ctx, id, func(r *Record) error {
		if err := r.HeldBy(holder, epoch); err != nil {
			return err
		}
		return change(r)
	})
}

// UpdateAny is Update for the gateway's own housekeeping, such as a rescue. An
// expired record is not found, whether the backend has collected it or not.
func (s *Store) UpdateAny(ctx context.Context, id string, change func(*Record) error) (*Record, error) {
	return s.swap(ctx, id, func(r *Record) error {
		if r.State.Expired(s.opts.Now()) {
			return ErrNotFound
		}
		return change(r)
	})
}

// swap is the one compare-and-swap loop (contract 5). It ends because each
// conflict means that another writer has made progress, or with ctx. Whatever a
// change may do, a terminal record is not written again.
func (s *Store) swap(ctx context.Context, id string, change func(*Record) error) (*Record, error) {
	for {
		r, err := s.load(ctx, id, PartState, PartInput)
		if err != nil {
			return nil, err
		}
		final := r.State.Status.Terminal()
		if err := change(r); err != nil {
			return r, err
		}
		if r.dirty == 0 {
			return r, nil
		}
		if final {
			return r, ErrTerminal
		}
		if err = s.replace(ctx, r); err == nil {
			return r, nil
		}
		if !errors.Is(err, ErrConflict) || ctx.Err() != nil {
			return nil, fmt.Errorf("write task: %w", err)
		}
	}
}

func (s *Store) replace(ctx context.Context, r *Record) error {
	d, err := s.encode(r, r.dirty)
	if err != nil {
		return err
	}
	d.Tell = r.tell
	if err := s.backend.Replace(ctx, r.Revision, d, newNonce()); err != nil {
		return err
	}
	r.Revision++
	r.dirty = 0
	s.notice(r)
	if r.State.Status.Terminal() && s.opts.Ended != nil {
		s.opts.Ended(r)
	}
	return nil
}

// notice wakes who watches.
func (s *Store) notice(r *Record) { s.watchers.wake(r.ID) }

// remember keeps a terminal record that is not too large to keep.
func (s *Store) remember(r *Record) {
	size := len(r.Outcome.Result) + len(r.Outcome.Error)
	if r.State.Status.Terminal() && size <= maxCachedOutcome {
		s.terminal.Add(r.ID, r)
	}
}

// maxCachedOutcome, in bytes, bounds the cache's memory together with its size.
const maxCachedOutcome = 32 << 10

// Watch returns a Watcher of the records. Stop releases it.
func (s *Store) Watch(ids ...string) *Watcher { return s.watchers.add(ids) }

// Hear calls f whenever the record may have changed, until the Watcher is stopped;
// that is all it is for. f must neither wait nor stop it.
func (s *Store) Hear(id string, f func()) *Watcher {
	return s.watchers.enter(&Watcher{hub: s.watchers, ids: []string{id}, hear: func(string) { f() }})
}

// Heartbeat is that of the backend, and carries what it tells to watchers.
func (s *Store) Heartbeat(ctx context.Context, holder string, lease time.Duration) error {
	changed, err := s.backend.Heartbeat(ctx, holder, lease)
	for _, id := range changed {
		s.watchers.wake(id)
	}
	return err
}

// Run carries the backend's hints to watchers until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	return s.backend.Hints(ctx, s.watchers.wake)
}

// Backend gives housekeeping its way to leases and orphans.
func (s *Store) Backend() Backend { return s.backend }
