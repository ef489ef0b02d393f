package quota

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// take takes n tokens and returns how many were to be had.
func take(b *Buckets[string], key string, n int, now time.Time) (got int) {
	for range n {
		if b.Take(key, now) == 0 {
			got++
		}
	}
	return got
}

func TestABurstAndThenTheRate(t *testing.T) {
	b := NewBuckets[string](10)
	b.Open("ann", PerSecond(10, 5))
	if got := take(b, "ann", 100, start); got != 5 {
		t.Errorf("%d at once, want the burst of 5", got)
	}
	if wait := b.Take("ann", start.Add(40*time.Millisecond)); wait.Round(time.Millisecond) != 60*time.Millisecond {
		t.Errorf("told to wait %v, want the rest of 100ms", wait)
	}
	if got := take(b, "ann", 100, start.Add(time.Second)); got != 5 {
		t.Errorf("%d after a second of rest, want the burst again and no more", got)
	}
	got := 0
	for at := start.Add(time.Hour); at.Before(start.Add(time.Hour + 10*time.Second)); at = at.Add(time.Millisecond) {
		got += take(b, "ann", 1, at)
	}
	if got < 104 || got > 105 {
		t.Errorf("%d in 10 s, want the burst and 10 each second", got)
	}
}

func TestKeysHaveBucketsOfTheirOwn(t *testing.T) {
	b := NewBuckets[string](10)
	b.Open("ann", PerSecond(1, 1))
	b.Open("bob", PerSecond(1, 1))
	if take(b, "ann", 9, start) != 1 || take(b, "bob", 9, start) != 1 {
		t.Error("one has taken from the other")
	}
	b.Open("ann", PerSecond(1, 1))
	if take(b, "ann", 1, start) != 0 {
		t.Error("a bucket was filled by opening it again")
	}
	b.Open("ann", PerSecond(1, 3))
	if got := take(b, "ann", 9, start); got != 3 {
		t.Errorf("with another rate %d, want a new bucket of 3", got)
	}
	b.Close("bob")
	if got := take(b, "bob", 9, start); got != 9 {
		t.Error("a key without a bucket has to wait")
	}
}

// A flood of keys takes no more memory, and nothing from the key that was there.
func TestAFloodOfKeys(t *testing.T) {
	b := NewBuckets[string](100)
	b.Open("ann", PerSecond(1, 5))
	take(b, "ann", 2, start)
	for i := range 100_000 {
		key := fmt.Sprint("flood", i)
		b.Open(key, PerSecond(1, 5))
		take(b, key, 5, start)
	}
	if b.Len() != 100 {
		t.Errorf("%d keys are remembered, want 100", b.Len())
	}
	b.Open("ann", PerSecond(1, 5))
	if got := take(b, "ann", 9, start); got < 3 {
		t.Errorf("the flood has left %d of 3", got)
	}
}

func TestNoLimit(t *testing.T) {
	b := NewBuckets[string](1)
	b.Open("ann", Rate{})
	if got := take(b, "ann", 1000, start); got != 1000 {
		t.Errorf("%d of 1000", got)
	}
}

func TestSlots(t *testing.T) {
	s := NewSlots(2, 3)
	for _, step := range []struct {
		key  string
		want error
	}{{"ann", nil}, {"ann", nil}, {"ann", ErrOwn}, {"bob", nil}, {"bob", ErrAll}} {
		if err := s.Take(step.key); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.key, err, step.want)
		}
	}
	s.Give("ann")
	if err := s.Take("bob"); err != nil {
		t.Errorf("after one was given back: %v", err)
	}
	s.Give("ann")
	s.Give("bob")
	s.Give("bob")
	if s.Taken() != 0 || len(s.byKey) != 0 {
		t.Errorf("with nothing open: %d taken, %v", s.Taken(), s.byKey)
	}
}

func TestSlotsUnderARace(t *testing.T) {
	s := NewSlots(5, 20)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			key := fmt.Sprint(i % 7)
			for range 200 {
				if s.Take(key) == nil {
					if n := s.Taken(); n > 20 {
						t.Errorf("%d taken of 20", n)
					}
					s.Give(key)
				}
			}
		})
	}
	wg.Wait()
	if s.Taken() != 0 {
		t.Errorf("%d are still taken", s.Taken())
	}
}
