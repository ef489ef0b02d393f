package storetest

import (
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"testing"

	"taskgate/taskroute"
)

// atOnce runs f in n goroutines that start together and returns their errors.
func atOnce(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// wantOne checks that one of errs is nil and the others are loser.
func wantOne(t *testing.T, errs []error, loser error) (winner int) {
	t.Helper()
	winner = -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			t.Fatalf("writers %d and %d both succeeded", winner, i)
		default:
			wantErr(t, "a loser", err, loser)
		}
	}
	if winner < 0 {
		t.Fatal("no writer succeeded")
	}
	return winner
}

func parallelCreate(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	errs := atOnce(16, func(i int) error {
		mine := d
		mine.Parts[taskroute.PartState] = []byte(strconv.Itoa(i))
		return b.Create(t.Context(), mine, rand.Text())
	})
	winner := wantOne(t, errs, taskroute.ErrExists)
	wantPart(t, get(t, b, d.ID), taskroute.PartState, []byte(strconv.Itoa(winner)))
}

func parallelReplace(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	create(t, b, d)
	for prev := range uint64(20) {
		errs := atOnce(16, func(i int) error {
			mine := d
			mine.Parts[taskroute.PartState] = []byte(strconv.Itoa(i))
			return b.Replace(t.Context(), prev+1, mine, rand.Text())
		})
		winner := wantOne(t, errs, taskroute.ErrConflict)
		got := get(t, b, d.ID)
		wantRevision(t, got, prev+2)
		wantPart(t, got, taskroute.PartState, []byte(strconv.Itoa(winner)))
	}
}

func parallelCount(t *testing.T, b taskroute.Backend) {
	const writers, rounds = 8, 25
	d := newDoc("r1")
	d.Parts[taskroute.PartState] = []byte("0")
	create(t, b, d)
	for _, err := range atOnce(writers, func(int) error {
		for range rounds {
			if err := increment(t, b, d); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := get(t, b, d.ID)
	wantRevision(t, got, 1+writers*rounds)
	wantPart(t, got, taskroute.PartState, []byte(strconv.Itoa(writers*rounds)))
}

// increment adds one to the number in d's state; each conflict means that
// another writer has got further, so it ends.
func increment(t *testing.T, b taskroute.Backend, d taskroute.Doc) error {
	for {
		got, err := b.Get(t.Context(), d.ID, taskroute.PartState)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(got.Parts[taskroute.PartState]))
		if err != nil {
			return err
		}
		d.Parts = [taskroute.NumParts][]byte{taskroute.PartState: []byte(strconv.Itoa(n + 1))}
		if err = b.Replace(t.Context(), got.Revision, d, rand.Text()); !errors.Is(err, taskroute.ErrConflict) {
			return err
		}
	}
}
