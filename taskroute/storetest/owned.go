package storetest

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"taskgate/taskroute"
)

// owners have names that are alike, or that a backend could stumble over.
var owners = []string{"acme/ann", "acme/ann2", "acme/an", "{a}/b:c", "x/y z\n", "}/{", "a}/b", "a%7D/b", "\x00/\x00"}

func wantUsage(t *testing.T, b taskroute.Backend, owner string, want taskroute.Usage) {
	t.Helper()
	if got, err := b.Usage(t.Context(), owner); got != want || err != nil {
		t.Fatalf("%q has %+v (%v), want %+v", owner, got, err, want)
	}
}

// owned pages through the ids of an owner's documents.
func owned(t *testing.T, b taskroute.Backend, owner string, limit int) []string {
	t.Helper()
	var all []string
	cursor := ""
	for range 10_000 {
		ids, next, err := b.Owned(t.Context(), owner, cursor, limit)
		if err != nil || len(ids) > limit {
			t.Fatalf("owned by %q: %d ids, error %v", owner, len(ids), err)
		}
		if all = append(all, ids...); next == "" {
			slices.Sort(all)
			return all
		}
		cursor = next
	}
	t.Fatal("owned: the pages do not end")
	return nil
}

// newOwned is a document that expires.
func newOwned(owner string) taskroute.Doc {
	d := newDoc("r1")
	d.Owner, d.ExpiresAt = owner, time.Now().Add(time.Hour)
	d.ForgetAt = d.ExpiresAt
	return d
}

// usageOf goes with a document through its life: what its owner has is what is
// there, and nothing of what others have.
func usageOf(t *testing.T, b taskroute.Backend) {
	want := map[string]taskroute.Usage{}
	var docs []taskroute.Doc
	check := func() {
		t.Helper()
		for _, owner := range owners {
			wantUsage(t, b, owner, want[owner])
		}
	}
	for i, owner := range owners {
		for range i + 1 {
			d := newOwned(owner)
			create(t, b, d)
			docs = append(docs, d)
			want[owner] = taskroute.Usage{Open: i + 1, Bytes: int64(i+1) * d.Size()}
		}
	}
	check()
	parked, ended := []byte("a question, and more"), []byte("a result")
	for _, d := range docs {
		d.Runnable, d.Holder = false, ""
		d.Parts = [taskroute.NumParts][]byte{taskroute.PartInput: parked}
		replace(t, b, 1, d)
		used := want[d.Owner]
		want[d.Owner] = taskroute.Usage{Open: used.Open, Bytes: used.Bytes + int64(len(parked))}
	}
	check()
	for _, d := range docs {
		d = closed(d)
		d.Parts = [taskroute.NumParts][]byte{taskroute.PartInput: {}, taskroute.PartOutcome: ended}
		replace(t, b, 2, d)
		used := want[d.Owner]
		want[d.Owner] = taskroute.Usage{Open: used.Open - 1, Bytes: used.Bytes - int64(len(parked)) + int64(len(ended))}
	}
	check()
}

// usageAgain is the writer whose replies are lost: what it writes counts once.
func usageAgain(t *testing.T, b taskroute.Backend) {
	d, nonce := newOwned("acme/ann"), rand.Text()
	for range 3 {
		if err := b.Create(t.Context(), d, nonce); err != nil {
			t.Fatal(err)
		}
	}
	wantUsage(t, b, d.Owner, taskroute.Usage{Open: 1, Bytes: d.Size()})
	wantErr(t, "another document of that id", b.Create(t.Context(), d, rand.Text()), taskroute.ErrExists)
	end := closed(d)
	end.Parts = [taskroute.NumParts][]byte{taskroute.PartOutcome: []byte("result")}
	for range 3 {
		if err := b.Replace(t.Context(), 1, end, nonce+"2"); err != nil {
			t.Fatal(err)
		}
	}
	wantErr(t, "a write that lost", b.Replace(t.Context(), 1, d, rand.Text()), taskroute.ErrConflict)
	wantUsage(t, b, d.Owner, taskroute.Usage{Bytes: d.Size() + end.Size()})
	if ids := owned(t, b, d.Owner, 10); !slices.Equal(ids, []string{d.ID}) {
		t.Fatalf("listed are %q, want %q", ids, d.ID)
	}
}

// parallelUsage: no change of what an owner has is lost.
func parallelUsage(t *testing.T, b taskroute.Backend) {
	const writers, rounds = 8, 10
	d := newOwned("acme/ann")
	for _, err := range atOnce(writers, func(int) error {
		for i := range rounds {
			d := newOwned(d.Owner)
			if err := b.Create(t.Context(), d, rand.Text()); err != nil {
				return err
			}
			if i%2 == 0 {
				continue
			}
			if err := b.Replace(t.Context(), 1, closed(d), rand.Text()); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantUsage(t, b, d.Owner, taskroute.Usage{Open: writers * rounds / 2, Bytes: writers * rounds * d.Size()})
}

// limits: an owner gets up to what it may have, whoever else has how much.
func limits(t *testing.T, b taskroute.Backend) {
	d := newOwned("acme/ann")
	for _, c := range []struct {
		limit taskroute.Usage
		fit   int
		hit   taskroute.Usage
	}{
		{taskroute.Usage{Open: 3}, 3, taskroute.Usage{Open: 3}},
		{taskroute.Usage{Open: 100, Bytes: 5 * d.Size()}, 2, taskroute.Usage{Bytes: 5 * d.Size()}},
		{taskroute.Usage{}, 1, taskroute.Usage{}},
	} {
		for i := range c.fit + 1 {
			d := newOwned(d.Owner)
			d.Limit = c.limit
			err := b.Create(t.Context(), d, rand.Text())
			if i < c.fit || c.limit == (taskroute.Usage{}) {
				if err != nil {
					t.Fatalf("document %d within %+v: %v", i, c.limit, err)
				}
				continue
			}
			var over *taskroute.OverLimitError
			if !errors.As(err, &over) || over.Limit != c.hit {
				t.Fatalf("document %d at %+v: %v", i, c.limit, err)
			}
			_, err = b.Get(t.Context(), d.ID)
			wantErr(t, "get what was refused", err, taskroute.ErrNotFound)
		}
	}
	other := newOwned("acme/bob")
	other.Limit = taskroute.Usage{Open: 1, Bytes: other.Size()}
	create(t, b, other)
	wantUsage(t, b, d.Owner, taskroute.Usage{Open: 7, Bytes: 7 * d.Size()})
	heartbeat(t, b, "r2", time.Hour)
	if n := len(orphans(t, b, 100)); n != 8 {
		t.Fatalf("%d orphans, want those 8 that were created", n)
	}
}

// roomAgain: what has ended is open no more, and what has expired is nothing.
func roomAgain(t *testing.T, b taskroute.Backend) {
	d := newOwned("acme/ann")
	d.Limit = taskroute.Usage{Open: 1}
	create(t, b, d)
	replace(t, b, 1, closed(d))
	soon := newOwned(d.Owner)
	soon.Limit, soon.ExpiresAt = d.Limit, time.Now().Add(100*time.Millisecond)
	soon.ForgetAt = soon.ExpiresAt
	create(t, b, soon)
	eventually(t, "the open document has expired, and another may come", func() bool {
		gone(t, b, soon.ID)
		d := newOwned(d.Owner)
		d.Limit = soon.Limit
		err := b.Create(t.Context(), d, rand.Text())
		if err != nil && !errors.As(err, new(*taskroute.OverLimitError)) {
			t.Fatal(err)
		}
		return err == nil
	})
	if ids := owned(t, b, d.Owner, 10); slices.Contains(ids, soon.ID) {
		t.Fatal("the expired one is listed")
	}
}

// ownedPages: each owner's own, open and ended, with and without an end, once.
func ownedPages(t *testing.T, b taskroute.Backend) {
	want := map[string][]string{}
	for i := range 120 {
		d := newOwned(owners[i%3])
		if i%4 > 0 { // both forms of ids, as in a file that an earlier version has begun
			d.ID = b.NewID()
		}
		switch i % 5 {
		case 0:
			d.ExpiresAt, d.ForgetAt = time.Time{}, time.Time{}
		case 1, 2: // several at one moment
			d.ExpiresAt = d.ExpiresAt.Truncate(time.Hour).Add(2 * time.Hour)
		}
		create(t, b, d)
		if i%2 == 0 {
			replace(t, b, 1, closed(d))
		}
		want[d.Owner] = append(want[d.Owner], d.ID)
	}
	for _, owner := range owners {
		slices.Sort(want[owner])
		for _, limit := range []int{1, 7, 1000} {
			if got := owned(t, b, owner, limit); !slices.Equal(got, want[owner]) {
				t.Fatalf("in pages of %d: %q has %d, want %d", limit, owner, len(got), len(want[owner]))
			}
		}
	}
	note := taskroute.Doc{ID: "note-x", Parts: newDoc("").Parts}
	create(t, b, note)
	if got := owned(t, b, "", 10); len(got) > 0 {
		t.Fatalf("nobody has %q", got)
	}
}

func badCursors(t *testing.T, b taskroute.Backend) {
	d := newOwned("acme/ann")
	create(t, b, d)
	for _, cursor := range []string{"x", " ", "open", "open ", "open 1 ", "open x " + d.ID, "other 1 " + d.ID, "open  " + d.ID + "x", "\x00", "0 1 2 3"} {
		_, _, err := b.Owned(t.Context(), d.Owner, cursor, 10)
		wantErr(t, "cursor "+cursor, err, taskroute.ErrCursor)
	}
	other := newOwned("acme/bob")
	for range 3 {
		other.ID = taskroute.NewID()
		create(t, b, other)
	}
	_, cursor, err := b.Owned(t.Context(), other.Owner, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	ids, _, err := b.Owned(t.Context(), d.Owner, cursor, 10)
	if err != nil || slices.ContainsFunc(ids, func(id string) bool { return id != d.ID }) {
		t.Fatalf("by another's cursor: %q, %v", ids, err)
	}
}
