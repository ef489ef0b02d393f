package storetest

import (
	"strings"
	"testing"
	"time"

	"taskgate/taskroute"
)

// storeOver is a Store whose reservations and notes are documents of b.
func storeOver(t *testing.T, b taskroute.Backend) *taskroute.Store {
	t.Helper()
	s, err := taskroute.NewStore(b, taskroute.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var reservedKey = strings.Repeat("k", 32)

func reserve(t *testing.T, s *taskroute.Store, id, instead string, ttl time.Duration, want string) {
	t.Helper()
	winner, err := s.Reserve(t.Context(), reservedKey, id, instead, ttl)
	if err != nil || winner != want {
		t.Fatalf("reserve for %s instead of %q: %q, %v; want %s", id, instead, winner, err, want)
	}
}

func parallelReserve(t *testing.T, b taskroute.Backend) {
	s := storeOver(t, b)
	winners := make([]string, 16)
	for i, err := range atOnce(len(winners), func(i int) (err error) {
		winners[i], err = s.Reserve(t.Context(), reservedKey, taskroute.NewID(), "", time.Hour)
		return err
	}) {
		if err != nil || winners[i] != winners[0] {
			t.Fatalf("caller %d got %q, %v; caller 0 got %q", i, winners[i], err, winners[0])
		}
	}
	if got, err := s.Reserved(t.Context(), reservedKey); err != nil || got != winners[0] {
		t.Fatalf("reserved is %q, %v; want %q", got, err, winners[0])
	}
}

func reservationsGo(t *testing.T, b taskroute.Backend) {
	s := storeOver(t, b)
	reserve(t, s, "a", "", time.Hour, "a")
	reserve(t, s, "b", "", time.Hour, "a")
	reserve(t, s, "b", "other", time.Hour, "a")
	reserve(t, s, "b", "a", 20*time.Millisecond, "b") // displaced
	eventually(t, "the reservation is over", func() bool {
		id, err := s.Reserved(t.Context(), reservedKey)
		if err != nil {
			t.Fatal(err)
		}
		return id == ""
	})
	reserve(t, s, "c", "", time.Hour, "c")
}
