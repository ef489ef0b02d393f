package storetest

import (
	"errors"
	"testing"
	"time"

	"taskgate/taskroute"
)

// gone collects, for a backend that wants that, and tells whether the document
// is no more, and whose it was.
func gone(t *testing.T, b taskroute.Backend, id string) (owner string, ok bool) {
	t.Helper()
	if _, err := b.Collect(t.Context(), time.Now()); err != nil {
		t.Fatalf("collect: %v", err)
	}
	d, err := b.Get(t.Context(), id, taskroute.PartState)
	if err != nil && !errors.Is(err, taskroute.ErrNotFound) {
		t.Fatalf("get: %v", err)
	}
	return d.Owner, err != nil
}

func expires(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	d.ExpiresAt = time.Now().Add(50 * time.Millisecond)
	d.ForgetAt = d.ExpiresAt.Add(2 * time.Second)
	create(t, b, d)
	eventually(t, "the document has expired", func() bool {
		owner, ok := gone(t, b, d.ID)
		if ok && owner != d.Owner {
			t.Fatalf("owner on the tombstone is %q, want %q", owner, d.Owner)
		}
		return ok
	})
	wantErr(t, "replace", b.Replace(t.Context(), 1, d, "late"), taskroute.ErrNotFound)
	eventually(t, "the tombstone is gone", func() bool {
		owner, _ := gone(t, b, d.ID)
		return owner == ""
	})
}

func expiresWithoutTombstone(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	d.ExpiresAt = time.Now().Add(time.Hour)
	d.ForgetAt = d.ExpiresAt
	create(t, b, d)
	d.ExpiresAt = time.Now().Add(-time.Second)
	d.ForgetAt = d.ExpiresAt
	replace(t, b, 1, d)
	eventually(t, "the document has expired", func() bool {
		owner, ok := gone(t, b, d.ID)
		if owner != "" {
			t.Fatalf("there is a tombstone of %q", owner)
		}
		return ok
	})
}

func expiryMoves(t *testing.T, b taskroute.Backend) {
	soon, late := newDoc("r1"), newDoc("r1")
	soon.ExpiresAt = time.Now().Add(2 * time.Second)
	soon.ForgetAt = soon.ExpiresAt.Add(time.Hour)
	late.ExpiresAt, late.ForgetAt = soon.ExpiresAt, soon.ForgetAt
	create(t, b, soon)
	create(t, b, late)
	late.ExpiresAt, late.ForgetAt = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	replace(t, b, 1, late)
	eventually(t, "the document that was left alone has expired", func() bool {
		_, ok := gone(t, b, soon.ID)
		return ok
	})
	wantRevision(t, get(t, b, late.ID), 2)

	late.ExpiresAt, late.ForgetAt = time.Time{}, time.Time{}
	replace(t, b, 2, late)
	wantRevision(t, get(t, b, late.ID), 3)
	if n, err := b.Collect(t.Context(), time.Now().Add(24*time.Hour)); n != 0 || err != nil {
		t.Fatalf("collected %d documents (%v), want none", n, err)
	}
}

func staysForever(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	create(t, b, d)
	n, err := b.Collect(t.Context(), time.Now().Add(1000*24*time.Hour))
	if n != 0 || err != nil {
		t.Fatalf("collected %d documents (%v), want none", n, err)
	}
	wantRevision(t, get(t, b, d.ID), 1)
}
