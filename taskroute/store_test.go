package taskroute_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskgate/taskroute"
	"taskgate/taskroute/memstore"
	"taskgate/wire"
)

var (
	ann = taskroute.Owner{Tenant: "acme", Subject: "ann"}
	bob = taskroute.Owner{Tenant: "acme", Subject: "bob"}
)

func by(o taskroute.Owner) taskroute.By { return taskroute.By{Owner: o, Kind: taskroute.Task} }

// clock is a time that the test moves.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.nanos.Store(time.Now().UnixNano())
	return c
}

func (c *clock) now() time.Time       { return time.Unix(0, c.nanos.Load()) }
func (c *clock) pass(d time.Duration) { c.nanos.Add(int64(d)) }

const tombstone = time.Hour

func newStore(t *testing.T, b taskroute.Backend, now func() time.Time) *taskroute.Store {
	t.Helper()
	s, err := taskroute.NewStore(b, taskroute.Options{Now: now, Tombstone: tombstone, CacheSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// create stores a new working record that lives for ttl.
func create(t *testing.T, s *taskroute.Store, kind taskroute.Kind, ttl time.Duration, now time.Time) *taskroute.Record {
	t.Helper()
	r := taskroute.NewRecord(s.NewID(), ann, kind, "r1", now)
	r.State.TTL = ttl
	r.Request.Params = wire.Raw(`{"name":"tool"}`)
	if err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// reach is every way to a record that the owner rule guards.
var reach = map[string]func(context.Context, *taskroute.Store, taskroute.By, string) error{
	"get": func(ctx context.Context, s *taskroute.Store, by taskroute.By, id string) error {
		_, err := s.Get(ctx, by, id)
		return err
	},
	"update": func(ctx context.Context, s *taskroute.Store, by taskroute.By, id string) error {
		r, err := s.Update(ctx, by, id, func(*taskroute.Record) error { return nil })
		if err != nil && r != nil {
			return fmt.Errorf("a record was given out along with: %w", err)
		}
		return err
	},
}

// TestOwnerRule is contract 4: what each asker is told about each record.
func TestOwnerRule(t *testing.T) {
	for way, ask := range reach {
		t.Run(way, func(t *testing.T) {
			c := newClock()
			backend := memstore.New(c.now)
			s := newStore(t, backend, c.now)
			lasting := create(t, s, taskroute.Task, 0, c.now())
			mortal := create(t, s, taskroute.Task, time.Minute, c.now())
			held := create(t, s, taskroute.Held, time.Minute, c.now())
			heldBy := taskroute.By{Owner: ann, Kind: taskroute.Held}

			want := func(when string, by taskroute.By, id string, want error) {
				t.Helper()
				err := ask(t.Context(), s, by, id)
				if !errors.Is(err, want) || (want == nil && err != nil) {
					t.Errorf("%s: %s (%s) is told %v, want %v", when, by.Owner, by.Kind, err, want)
				}
				if errors.Is(want, taskroute.ErrNotFound) && err != nil && err.Error() != want.Error() {
					t.Errorf("%s: %s can tell this from an unknown task: %v", when, by.Owner, err)
				}
			}
			collect := func() {
				t.Helper()
				if _, err := backend.Collect(t.Context(), c.now()); err != nil {
					t.Fatal(err)
				}
			}

			for _, id := range []string{lasting.ID, mortal.ID} {
				want("while it lives", by(ann), id, nil)
				want("while it lives", by(bob), id, taskroute.ErrNotFound)
				want("while it lives", heldBy, id, taskroute.ErrNotFound)
			}
			want("held", heldBy, held.ID, nil)
			want("held", by(ann), held.ID, taskroute.ErrNotFound)
			want("held", taskroute.By{Owner: bob, Kind: taskroute.Held}, held.ID, taskroute.ErrNotFound)
			want("never was", by(ann), taskroute.NewID(), taskroute.ErrNotFound)
			for _, id := range []string{"", "x", strings.ToLower(lasting.ID), lasting.ID + "A", lasting.ID[:25] + "1", lasting.ID[:25] + "\x00"} {
				want("malformed", by(bob), id, taskroute.ErrMalformed)
			}

			c.pass(time.Minute)
			for _, when := range []string{"expired", "expired and collected"} {
				want(when, by(ann), mortal.ID, taskroute.ErrExpired)
				want(when, by(bob), mortal.ID, taskroute.ErrNotFound)
				want(when, by(ann), held.ID, taskroute.ErrNotFound)
				want(when, by(ann), lasting.ID, nil)
				collect()
			}
			want("expired, held and collected", heldBy, held.ID, taskroute.ErrNotFound)

			late := create(t, s, taskroute.Task, time.Minute, c.now())
			c.pass(time.Minute + tombstone)
			want("forgotten, not collected", by(ann), late.ID, taskroute.ErrNotFound)
			collect()
			want("forgotten", by(ann), mortal.ID, taskroute.ErrNotFound)
			want("forgotten", by(ann), late.ID, taskroute.ErrNotFound)
		})
	}
}

// TestExpiryReachesTheCache is a terminal record that is served from memory.
// TestSharedRecords: a tenant reaches a shared task, but no held call, and does
// not learn that it has expired.
func TestSharedRecords(t *testing.T) {
	c := newClock()
	s := newStore(t, memstore.New(c.now), c.now)
	cal := taskroute.Owner{Tenant: "globex", Subject: "ann"}
	for kind, bobs := range map[taskroute.Kind]error{taskroute.Task: nil, taskroute.Held: taskroute.ErrNotFound} {
		r := taskroute.NewRecord(taskroute.NewID(), ann, kind, "r1", c.now())
		r.State.TTL, r.State.Shared = time.Minute, true
		if err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		wantFor := func(owner taskroute.Owner, want error) {
			t.Helper()
			by := taskroute.By{Owner: owner, Kind: kind}
			_, got := s.Get(t.Context(), by, r.ID)
			_, updated := s.Update(t.Context(), by, r.ID, func(*taskroute.Record) error { return nil })
			if !errors.Is(got, want) || !errors.Is(updated, want) {
				t.Errorf("%s for %s: get %v, update %v; want %v", kind, owner, got, updated, want)
			}
		}
		wantFor(ann, nil)
		wantFor(bob, bobs)
		wantFor(cal, taskroute.ErrNotFound)
		c.pass(time.Minute)
		wantFor(bob, taskroute.ErrNotFound)
		if kind == taskroute.Task {
			wantFor(ann, taskroute.ErrExpired)
		}
	}
}

func TestExpiryReachesTheCache(t *testing.T) {
	c := newClock()
	s := newStore(t, memstore.New(c.now), c.now)
	r := create(t, s, taskroute.Task, time.Minute, c.now())
	if _, err := s.Update(t.Context(), by(ann), r.ID, func(r *taskroute.Record) error {
		return r.Complete(wire.Raw(`{}`), c.now())
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Get(t.Context(), by(ann), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Get(t.Context(), by(bob), r.ID); !errors.Is(err, taskroute.ErrNotFound) {
		t.Fatalf("a stranger gets from the cache: %v", err)
	}
	c.pass(time.Minute)
	if _, err := s.Get(t.Context(), by(ann), r.ID); !errors.Is(err, taskroute.ErrExpired) {
		t.Fatalf("after its time: %v", err)
	}
}

// counting counts reads and may be made to fail or to conflict.
type counting struct {
	taskroute.Backend
	reads     atomic.Int64
	conflicts atomic.Int64 // how many replaces are still to conflict
	broken    atomic.Bool
}

var errBroken = errors.New("store is away")

func (c *counting) Get(ctx context.Context, id string, parts ...taskroute.Part) (taskroute.Doc, error) {
	c.reads.Add(1)
	if c.broken.Load() {
		return taskroute.Doc{}, errBroken
	}
	return c.Backend.Get(ctx, id, parts...)
}

func (c *counting) Replace(ctx context.Context, prev uint64, d taskroute.Doc, nonce string) error {
	if c.broken.Load() {
		return errBroken
	}
	if c.conflicts.Add(-1) >= 0 {
		return taskroute.ErrConflict
	}
	return c.Backend.Replace(ctx, prev, d, nonce)
}

func TestOnlySmallTerminalRecordsAreCached(t *testing.T) {
	b := &counting{Backend: memstore.New(time.Now)}
	s := newStore(t, b, time.Now)
	end := func(result wire.Raw) string {
		r := create(t, s, taskroute.Task, time.Hour, time.Now())
		if _, err := s.Update(t.Context(), by(ann), r.ID, func(r *taskroute.Record) error {
			return r.Complete(result, time.Now())
		}); err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	open := create(t, s, taskroute.Task, time.Hour, time.Now()).ID
	for what, c := range map[string]struct {
		id    string
		reads int64
	}{
		"working": {open, 3},
		"small":   {end(wire.Raw(`{}`)), 1},
		"large":   {end(wire.Raw(`"` + strings.Repeat("x", 64<<10) + `"`)), 3},
	} {
		before := b.reads.Load()
		for range 3 {
			if _, err := s.Get(t.Context(), by(ann), c.id); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.reads.Load() - before; got != c.reads {
			t.Errorf("%s: three gets read %d times, want %d", what, got, c.reads)
		}
	}
}

// TestUpdateRepeats runs change again on what it reads again after a conflict.
func TestUpdateRepeats(t *testing.T) {
	b := &counting{Backend: memstore.New(time.Now)}
	s := newStore(t, b, time.Now)
	id := create(t, s, taskroute.Task, time.Hour, time.Now()).ID
	b.conflicts.Store(5)
	runs := 0
	r, err := s.Update(t.Context(), by(ann), id, func(r *taskroute.Record) error {
		runs++
		return r.Progress(fmt.Sprint(runs), time.Now())
	})
	if err != nil || runs != 6 || r.State.StatusMessage != "6" || r.Revision != 2 {
		t.Fatalf("%d runs, message %q, revision %d, error %v", runs, r.State.StatusMessage, r.Revision, err)
	}
}

func TestUpdateEndsWithItsContext(t *testing.T) {
	b := &counting{Backend: memstore.New(time.Now)}
	s := newStore(t, b, time.Now)
	id := create(t, s, taskroute.Task, time.Hour, time.Now()).ID
	b.conflicts.Store(1 << 40)
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	_, err := s.Update(ctx, by(ann), id, func(r *taskroute.Record) error {
		if runs++; runs == 10 {
			cancel()
		}
		return r.Progress(fmt.Sprint(runs), time.Now())
	})
	if err == nil || runs != 10 {
		t.Fatalf("%d runs, error %v", runs, err)
	}
}

// TestContention has many writers count in one record: no count is lost, and the
// owner's answers and the holder's progress do not undo each other.
func TestContention(t *testing.T) {
	s := newStore(t, memstore.New(time.Now), time.Now)
	id := create(t, s, taskroute.Task, time.Hour, time.Now()).ID
	const writers, rounds = 8, 50
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for range rounds {
				var err error
				if w%2 == 0 {
					_, err = s.UpdateHeld(t.Context(), id, "r1", 1, func(r *taskroute.Record) error {
						_, err := r.Ask([]taskroute.Question{{Method: "ping"}}, time.Now())
						return err
					})
				} else {
					_, err = s.Update(t.Context(), by(ann), id, func(r *taskroute.Record) error {
						return r.Progress(taskroute.NewID(), time.Now())
					})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	r, err := s.Get(t.Context(), by(ann), id)
	if err != nil || r.Revision != 1+writers*rounds || len(r.Input.Questions) != writers/2*rounds {
		t.Fatalf("revision %d, %d questions, error %v", r.Revision, len(r.Input.Questions), err)
	}
}

// TestOneEnd lets several ends race: one wins, and it stays (contract 5).
func TestOneEnd(t *testing.T) {
	s := newStore(t, memstore.New(time.Now), time.Now)
	for range 50 {
		id := create(t, s, taskroute.Task, time.Hour, time.Now()).ID
		ends := []func(*taskroute.Record) error{
			func(r *taskroute.Record) error { return r.Complete(wire.Raw(`{}`), time.Now()) },
			func(r *taskroute.Record) error { return r.Fail(wire.Raw(`{}`), "", time.Now()) },
			func(r *taskroute.Record) error { return r.Cancel("", time.Now()) },
		}
		won := make(chan taskroute.Status, len(ends))
		var all sync.WaitGroup
		for _, end := range ends {
			all.Go(func() {
				switch r, err := s.Update(t.Context(), by(ann), id, end); {
				case err == nil:
					won <- r.State.Status
				case !errors.Is(err, taskroute.ErrTerminal):
					t.Error(err)
				}
			})
		}
		all.Wait()
		close(won)
		r, err := s.Get(t.Context(), by(ann), id)
		if err != nil || len(won) != 1 || r.State.Status != <-won {
			t.Fatalf("status %s, error %v", r.State.Status, err)
		}
	}
}

func TestUpdateHeldIsFenced(t *testing.T) {
	s := newStore(t, memstore.New(time.Now), time.Now)
	id := create(t, s, taskroute.Task, time.Hour, time.Now()).ID
	if _, err := s.UpdateAny(t.Context(), id, func(r *taskroute.Record) error { return r.Claim("r2", time.Now()) }); err != nil {
		t.Fatal(err)
	}
	late := func(r *taskroute.Record) error { return r.Complete(wire.Raw(`{}`), time.Now()) }
	if r, err := s.UpdateHeld(t.Context(), id, "r1", 1, late); !errors.Is(err, taskroute.ErrFenced) || r.State.Holder != "r2" {
		t.Fatalf("the old holder's write: %v", err)
	}
	if _, err := s.UpdateHeld(t.Context(), id, "r2", 2, late); err != nil {
		t.Fatalf("the new holder's write: %v", err)
	}
	if _, err := s.UpdateHeld(t.Context(), id, "r2", 2, late); !errors.Is(err, taskroute.ErrTerminal) {
		t.Fatalf("a second end: %v", err)
	}
}

// TestTerminalIsNotWritten is a change that does not look at the status.
func TestTerminalIsNotWritten(t *testing.T) {
	s := newStore(t, memstore.New(time.Now), time.Now)
	id := create(t, s, taskroute.Task, time.Hour, time.Now()).ID
	if _, err := s.UpdateAny(t.Context(), id, func(r *taskroute.Record) error { return r.Cancel("", time.Now()) }); err != nil {
		t.Fatal(err)
	}
	_, err := s.UpdateAny(t.Context(), id, func(r *taskroute.Record) error { r.Issue("ticket"); return nil })
	if !errors.Is(err, taskroute.ErrTerminal) {
		t.Fatalf("error is %v, want %v", err, taskroute.ErrTerminal)
	}
	if r, err := s.Load(t.Context(), id); err != nil || r.Revision != 2 {
		t.Fatalf("revision %d, error %v", r.Revision, err)
	}
}

func TestErrorsOfTheBackendPassThrough(t *testing.T) {
	b := &counting{Backend: memstore.New(time.Now)}
	s := newStore(t, b, time.Now)
	id := create(t, s, taskroute.Task, time.Hour, time.Now()).ID
	b.broken.Store(true)
	for way, ask := range reach {
		if err := ask(t.Context(), s, by(ann), id); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", way, err)
		}
	}
}

func TestLoadHasTheRequest(t *testing.T) {
	s := newStore(t, memstore.New(time.Now), time.Now)
	id := create(t, s, taskroute.Held, time.Hour, time.Now()).ID
	r, err := s.Load(t.Context(), id)
	if err != nil || string(r.Request.Params) != `{"name":"tool"}` {
		t.Fatalf("params %s, error %v", r.Request.Params, err)
	}
	if _, err := s.Load(t.Context(), taskroute.NewID()); !errors.Is(err, taskroute.ErrNotFound) {
		t.Fatalf("unknown: %v", err)
	}
}

// hinting is a backend whose hints the test gives.
type hinting struct {
	taskroute.Backend
	hints chan string
}

func (h hinting) Hints(ctx context.Context, f func(string)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case id := <-h.hints:
			f(id)
		}
	}
}

func TestWatch(t *testing.T) {
	b := hinting{memstore.New(time.Now), make(chan string)}
	s := newStore(t, b, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	one, two := create(t, s, taskroute.Task, 0, time.Now()).ID, create(t, s, taskroute.Task, 0, time.Now()).ID
	w, both := s.Watch(one), s.Watch(one, two)
	defer w.Stop()
	defer both.Stop()

	change := func(id string) {
		t.Helper()
		if _, err := s.UpdateAny(t.Context(), id, func(r *taskroute.Record) error {
			return r.Progress(taskroute.NewID(), time.Now())
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		what    string
		do      func()
		w, both []string
	}{
		{"a change here", func() { change(one) }, []string{one}, []string{one}},
		{"two changes here", func() { change(one); change(two) }, []string{one}, []string{one, two}},
		{"a change elsewhere", func() { b.hints <- two }, nil, []string{two}},
		{"lost hints", func() { b.hints <- "" }, []string{one}, []string{one, two}},
		{"a change of another task", func() { create(t, s, taskroute.Task, 0, time.Now()) }, nil, nil},
	} {
		step.do()
		wantChanged(t, step.what, w, step.w)
		wantChanged(t, step.what, both, step.both)
	}

	both.Stop()
	change(two)
	wantChanged(t, "a change after stop", both, nil)
	cancel()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Fatalf("run ended with %v", err)
	}
}

// wantChanged waits for the ids in want; none: it checks that there is none now.
func wantChanged(t *testing.T, what string, w *taskroute.Watcher, want []string) {
	t.Helper()
	slices.Sort(want)
	var got []string
	for deadline := time.After(30 * time.Second); len(got) < len(want); {
		select {
		case <-w.Changed():
			got = append(got, w.Take()...)
		case <-deadline:
			t.Fatalf("%s: only %q after 30 s, want %q", what, got, want)
		}
	}
	got = append(got, w.Take()...)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("%s: changed are %q, want %q", what, got, want)
	}
}
