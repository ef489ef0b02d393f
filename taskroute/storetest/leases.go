package storetest

import (
	"slices"
	"testing"
	"time"

	"taskgate/taskroute"
)

func heartbeat(t *testing.T, b taskroute.Backend, holder string, lease time.Duration) {
	t.Helper()
	if err := b.Heartbeat(t.Context(), holder, lease); err != nil {
		t.Fatalf("heartbeat of %s: %v", holder, err)
	}
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
	wantErr(t, "heartbeat", b.Heartbeat(t.Context(), "r1", time.Hour), taskroute.ErrConflict)
	wantErr(t, "heartbeat", b.Heartbeat(t.Context(), "r1", time.Hour), taskroute.ErrConflict)
	wantOrphans(t, b, d.ID)

	replace(t, b, 1, closed(d))
	wantOrphans(t, b)
	wantErr(t, "heartbeat with nothing held", b.Heartbeat(t.Context(), "r1", time.Hour), taskroute.ErrConflict)
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
	wantErr(t, "heartbeat", b.Heartbeat(t.Context(), "r1", time.Hour), taskroute.ErrConflict)
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
