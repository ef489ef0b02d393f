package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"taskgate/taskroute"
)

// OpenPair returns two backends over one store, as two processes have them.
type OpenPair func(t *testing.T) (a, b taskroute.Backend)

// RunPair proves what the contract says about several replicas.
func RunPair(t *testing.T, open OpenPair) {
	for _, c := range []struct {
		sentence string
		prove    func(t *testing.T, a, b taskroute.Backend)
	}{
		{"a write at one replica is read at the other", readAtOther},
		{"a replica's documents are orphans for the other", orphansAtOther},
		{"what an owner has is the same at both", ownedAtOther},
		{"a change, and what is awaited, is hinted to the other replica", hinted},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			c.prove(t, a, b)
		})
	}
}

func readAtOther(t *testing.T, a, b taskroute.Backend) {
	d := newDoc("r1")
	for rev := range uint64(100) {
		if rev == 0 {
			create(t, a, d)
		} else {
			replace(t, a, rev, d)
		}
		wantRevision(t, get(t, b, d.ID), rev+1)
		a, b = b, a
	}
	wantErr(t, "replace", a.Replace(t.Context(), 1, d, "late"), taskroute.ErrConflict)
}

func orphansAtOther(t *testing.T, a, b taskroute.Backend) {
	heartbeat(t, a, "a", time.Hour)
	heartbeat(t, b, "b", time.Hour)
	d := newDoc("a")
	create(t, a, d)
	wantOrphans(t, b)
	if err := a.Retire(t.Context(), "a"); err != nil {
		t.Fatalf("retire: %v", err)
	}
	wantOrphans(t, b, d.ID)
	d.Holder = "b"
	replace(t, b, 1, d)
	wantOrphans(t, a)
	wantErr(t, "the old holder's write", a.Replace(t.Context(), 1, closed(d), "late"), taskroute.ErrConflict)
}

func ownedAtOther(t *testing.T, a, b taskroute.Backend) {
	d := newOwned("acme/ann")
	d.Limit = taskroute.Usage{Open: 10}
	writers := []taskroute.Backend{a, b}
	made := make(chan string, 100)
	refused := 0
	for _, err := range atOnce(20, func(i int) error {
		d := d
		d.ID = taskroute.NewID()
		err := writers[i%2].Create(t.Context(), d, rand.Text())
		if err == nil {
			made <- d.ID
		}
		return err
	}) {
		if over := new(*taskroute.OverLimitError); errors.As(err, over) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused != 10 {
		t.Fatalf("%d of 20 were refused, the limit is 10", refused)
	}
	close(made)
	var want []string
	for id := range made {
		want = append(want, id)
	}
	slices.Sort(want)
	d.ID = want[0]
	replace(t, b, 1, closed(d))
	for _, at := range writers {
		wantUsage(t, at, d.Owner, taskroute.Usage{Open: 9, Bytes: 10 * d.Size()})
		if got := owned(t, at, d.Owner, 3); !slices.Equal(got, want) {
			t.Fatalf("listed are %q, want %q", got, want)
		}
	}
}

func hinted(t *testing.T, a, b taskroute.Backend) {
	ctx, cancel := context.WithCancel(t.Context())
	hints, done := make(chan string, 1000), make(chan error, 1)
	go func() { done <- b.Hints(ctx, func(id string) { hints <- id }) }()
	if id := receive(t, hints); id != "" {
		t.Fatalf("the first hint is %q, want that some may have been lost", id)
	}
	var want, got []string
	for range 20 {
		d := newDoc("r1")
		create(t, a, d)
		replace(t, a, 1, d)
		awaited := newDoc("r1")
		awaited.Awaited = true
		create(t, a, awaited)
		want = append(want, d.ID, awaited.ID)
	}
	for len(got) < len(want) {
		if id := receive(t, hints); id != "" && !slices.Contains(got, id) {
			got = append(got, id)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("hints are %q, want %q", got, want)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("hints ended with %v", err)
	}
}

func receive(t *testing.T, hints <-chan string) string {
	t.Helper()
	select {
	case id := <-hints:
		return id
	case <-time.After(30 * time.Second):
		t.Fatal("no hint within 30 s")
		return ""
	}
}
