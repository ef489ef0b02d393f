package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"syscall"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/taskroute"
)

// jam is a store whose server stands still while maxFlights writes are on their way.
type jam struct {
	*Store
	t      *testing.T
	server *redistest.Server
	meter  *redistest.Meter
	first  []chan error
}

func newJam(t *testing.T) *jam {
	t.Helper()
	server := redistest.Start(t)
	meter := redistest.StartMeter(t, server)
	now := time.Now() // stands still, so that nobody looks how full the server is
	s, err := Open(t.Context(), meter.URL(), Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	j := &jam{Store: s, t: t, server: server, meter: meter}
	<-j.create(t.Context(), document(), "first") // looks how full it is
	server.Signal(t, syscall.SIGSTOP)
	for range maxFlights {
		j.first = append(j.first, j.create(t.Context(), document(), rand.Text()))
	}
	j.await("as many as may are on their way", func() bool { return s.writers.flights == maxFlights })
	return j
}

func document() taskroute.Doc {
	return taskroute.Doc{
		ID: taskroute.NewID(), Open: true, Runnable: true, Holder: "r1", Owner: "acme/ann", ExpiresAt: time.Now().Add(time.Hour),
		Parts: [taskroute.NumParts][]byte{taskroute.PartState: []byte("state")},
	}
}

func (j *jam) create(ctx context.Context, d taskroute.Doc, nonce string) chan error {
	done := make(chan error, 1)
	go func() { done <- j.Create(ctx, d, nonce) }()
	return done
}

// await waits for what the combiner comes to.
func (j *jam) await(what string, ok func() bool) {
	j.t.Helper()
	mcptest.Eventually(j.t, 30*time.Second, what, func() bool {
		j.writers.mu.Lock()
		defer j.writers.mu.Unlock()
		return ok()
	})
}

// seats is how many writers wait for the next flights.
func (j *jam) seats() (n int) {
	for _, f := range j.writers.waiting {
		n += len(f.seats)
	}
	return n
}

func (j *jam) goOn() {
	j.t.Helper()
	j.server.Signal(j.t, syscall.SIGCONT)
	for _, done := range j.first {
		if err := <-done; err != nil {
			j.t.Fatalf("one that was on its way: %v", err)
		}
	}
}

// TestWritersShareFlights: what comes while others are on their way goes together,
// and each writer is told what became of its own.
func TestWritersShareFlights(t *testing.T) {
	const writers, most = 80, 3 + 3*maxFlights // three flights of 32 at most, and those before them, which connect first
	j := newJam(t)
	before := j.meter.Trips()
	same := document()
	results := []chan error{j.create(t.Context(), same, rand.Text())}
	j.await("the first is aboard", func() bool { return j.seats() == 1 })
	results = append(results, j.create(t.Context(), same, rand.Text()))
	docs := []taskroute.Doc{same, same}
	for range writers - 2 {
		d := document()
		docs, results = append(docs, d), append(results, j.create(t.Context(), d, rand.Text()))
	}
	j.await("all are aboard", func() bool { return j.seats() == writers })
	j.goOn()
	for i, done := range results {
		err := <-done
		if i != 1 && err != nil {
			t.Errorf("writer %d: %v", i, err)
		}
		if i == 1 && !errors.Is(err, taskroute.ErrExists) {
			t.Errorf("the writer of another document of that id is told %v", err)
		}
		if d, err := j.Get(t.Context(), docs[i].ID); err != nil || d.Revision != 1 {
			t.Errorf("document %d: revision %d, error %v", i, d.Revision, err)
		}
	}
	if got := j.meter.Trips() - before - writers; got > most { // writers: the gets
		t.Errorf("%d round trips, want %d at most", got, most)
	}
	j.await("nothing is on its way", func() bool { return j.writers.flights == 0 && len(j.writers.waiting) == 0 })
}

// TestGivingUpAboard: who gives up before its flight has left is told so at once, and
// nothing of it is written.
func TestGivingUpAboard(t *testing.T) {
	j := newJam(t)
	ctx, cancel := context.WithCancel(t.Context())
	gone, stays := document(), document()
	given := j.create(ctx, gone, rand.Text())
	j.await("it is aboard", func() bool { return j.seats() == 1 })
	kept := j.create(t.Context(), stays, rand.Text())
	j.await("both are aboard", func() bool { return j.seats() == 2 })
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Fatalf("who gave up is told %v", err)
	}
	j.goOn()
	if err := <-kept; err != nil {
		t.Fatal(err)
	}
	if _, err := j.Get(t.Context(), gone.ID); !errors.Is(err, taskroute.ErrNotFound) {
		t.Errorf("what was given up: %v", err)
	}
}

// TestGivingUpInFlight: who is out of time while its flight is on its way is told so
// at once, and may use its memory again; what it has written is as it was.
func TestGivingUpInFlight(t *testing.T) {
	j := newJam(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	d := document()
	late := j.create(ctx, d, rand.Text())
	j.await("it is aboard", func() bool { return j.seats() == 1 })
	j.writers.next() // as if one had landed
	if err := <-late; !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("who was out of time is told %v", err)
	}
	clear(d.Parts[taskroute.PartState])
	j.goOn()
	mcptest.Eventually(t, 30*time.Second, "it is written", func() bool {
		got, err := j.Get(t.Context(), d.ID, taskroute.PartState)
		return err == nil && string(got.Parts[taskroute.PartState]) == "state"
	})
}
