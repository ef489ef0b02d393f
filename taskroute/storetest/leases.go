package storetest

import (
	"slices"
	"testing"
	"time"

	"taskgate/taskroute"
)

// heartbeat returns what the holder is told.
func heartbeat(t *testing.T, b taskroute.Backend, holder string, lease time.Duration) []string {
	t.Helper()
	changed, err := b.Heartbeat(t.Context(), holder, lease)
	if err != nil {
		t.Fatalf("heartbeat of %s: %v", holder, err)
	}
	return changed
}

// lateHeartbeat is one of a holder whose lease is over.
func lateHeartbeat(t *testing.T, b taskroute.Backend, holder string) error {
	t.Helper()
	_, err := b.Heartbeat(t.Context(), holder, time.Hour)
	return err
}

// orphans pages through all of them.
func orphans(t *testing.T, b taskroute.Backend, limit int) []string {
	t.Helper()
	var all []string
	cursor := ""
	for range 10_000 {
		page, next, err := b.Orphans(t.Context(), cursor, limit)
		if err != nil {
			t.Fatalf("orphans: %v", err)
		}
		for _, o := range page {
			all = append(all, o.ID)
		}
		if next == "" {
			slices.Sort(all)
			return slices.Compact(all)
		}
		cursor = next
	}
	t.Fatal("orphans: the pages do not end")
	return nil
}

func wantOrphans(t *testing.T, b taskroute.Backend, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := orphans(t, b, 100); !slices.Equal(got, want) {
		t.Fatalf("orphans are %q, want %q", got, want)
	}
}

func orphansOfTheDead(t *testing.T, b taskroute.Backend) {
	wantOrphans(t, b)
	heartbeat(t, b, "alive", time.Hour)
	heartbeat(t, b, "alive", time.Hour)
	kept, lost := newDoc("alive"), newDoc("never heard of")
	create(t, b, kept)
	create(t, b, lost)
	wantOrphans(t, b, lost.ID)
	heartbeat(t, b, "never heard of", time.Hour)
	wantOrphans(t, b)
}

func leaseLapses(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	heartbeat(t, b, "r1", 50*time.Millisecond)
	create(t, b, d)
	eventually(t, "the lease has lapsed", func() bool { return len(orphans(t, b, 100)) == 1 })
	wantErr(t, "heartbeat", lateHeartbeat(t, b, "r1"), taskroute.ErrConflict)
	wantErr(t, "heartbeat", lateHeartbeat(t, b, "r1"), taskroute.ErrConflict)
	wantOrphans(t, b, d.ID)

	replace(t, b, 1, closed(d))
	wantOrphans(t, b)
	wantErr(t, "heartbeat with nothing held", lateHeartbeat(t, b, "r1"), taskroute.ErrConflict)
}

func retire(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	heartbeat(t, b, "r1", time.Hour)
	create(t, b, d)
	wantOrphans(t, b)
	if err := b.Retire(t.Context(), "r1"); err != nil {
		t.Fatalf("retire: %v", err)
	}
	wantOrphans(t, b, d.ID)
	wantErr(t, "heartbeat", lateHeartbeat(t, b, "r1"), taskroute.ErrConflict)
	if err := b.Retire(t.Context(), "r1"); err != nil {
		t.Fatalf("retire again: %v", err)
	}
}

func orphansAreOpen(t *testing.T, b taskroute.Backend) {
	ended, parked, asking := newDoc("dead"), newDoc("dead"), newDoc("dead")
	create(t, b, ended)
	create(t, b, parked)
	create(t, b, asking)
	replace(t, b, 1, closed(ended))
	parked.Runnable, parked.Holder = false, ""
	replace(t, b, 1, parked)
	asking.Runnable = false // its holder waits for the answer, or should
	replace(t, b, 1, asking)
	wantOrphans(t, b, asking.ID)
}

func claimedOrphan(t *testing.T, b taskroute.Backend) {
	heartbeat(t, b, "alive", time.Hour)
	d := newDoc("dead")
	create(t, b, d)
	wantOrphans(t, b, d.ID)
	d.Holder = "alive"
	replace(t, b, 1, d)
	wantOrphans(t, b)
	if err := b.Retire(t.Context(), "alive"); err != nil {
		t.Fatalf("retire: %v", err)
	}
	wantOrphans(t, b, d.ID)
}

// reclaimed is a holder that lets go of a document and takes it back, many
// times: what tidies up after the first must not touch the second.
func reclaimed(t *testing.T, b taskroute.Backend) {
	heartbeat(t, b, "r1", time.Hour)
	d := newDoc("r1")
	create(t, b, d)
	rev := uint64(1)
	for range 10 {
		parked := d
		parked.Runnable, parked.Holder = false, ""
		replace(t, b, rev, parked)
		replace(t, b, rev+1, d)
		rev += 2
		wantOrphans(t, b)
	}
	if err := b.Retire(t.Context(), "r1"); err != nil {
		t.Fatalf("retire: %v", err)
	}
	wantOrphans(t, b, d.ID)
}

func unheld(t *testing.T, b taskroute.Backend) {
	heartbeat(t, b, "alive", time.Hour)
	d := newDoc("alive")
	create(t, b, d)
	d.Holder = ""
	replace(t, b, 1, d)
	wantOrphans(t, b)
	heartbeat(t, b, "alive", 50*time.Millisecond)
	eventually(t, "nobody has taken the document for a lease", func() bool {
		return slices.Equal(orphans(t, b, 100), []string{d.ID})
	})
	replace(t, b, 2, closed(d))
	wantOrphans(t, b)
}

func orphanPages(t *testing.T, b taskroute.Backend) {
	var want []string
	for i := range 250 {
		d := newDoc([]string{"dead", "gone", "lost"}[i%3])
		create(t, b, d)
		want = append(want, d.ID)
	}
	slices.Sort(want)
	if got := orphans(t, b, 20); !slices.Equal(got, want) {
		t.Fatalf("paging found %d orphans, want %d", len(got), len(want))
	}
	if ids, next, err := b.Orphans(t.Context(), "", 20); err != nil || next == "" || len(ids) >= len(want) {
		t.Fatalf("the first page has %d ids, next %q, error %v", len(ids), next, err)
	}
}

func told(t *testing.T, b taskroute.Backend) {
	heartbeat(t, b, "r1", time.Hour)
	heartbeat(t, b, "r2", time.Hour)
	quiet, changed := newDoc("r1"), newDoc("r1")
	create(t, b, quiet)
	create(t, b, changed)
	replace(t, b, 1, quiet) // by r1 itself
	if ids := heartbeat(t, b, "r1", time.Hour); len(ids) > 0 {
		t.Fatalf("the holder was told of %q, which nobody else has changed", ids)
	}
	changed.Tell = "r1"
	replace(t, b, 1, changed)
	replace(t, b, 2, changed)
	if ids := heartbeat(t, b, "r1", time.Hour); !slices.Equal(ids, []string{changed.ID}) {
		t.Fatalf("the holder was told of %q, want %q", ids, changed.ID)
	}
	if ids := heartbeat(t, b, "r2", time.Hour); len(ids) > 0 {
		t.Fatalf("another holder was told of %q", ids)
	}
}
