package taskroute_test

import (
	"slices"
	"testing"
	"time"

	"taskgate/taskroute"
)

// TestOrderedIDs: they sort by their time, are told from what is malformed, and
// share nothing but their time.
func TestOrderedIDs(t *testing.T) {
	const secret = 26
	var ids []string
	for at := time.Now(); len(ids) < 4000; at = at.Add(7 * time.Millisecond) {
		ids = append(ids, taskroute.NewOrderedID(at))
	}
	ids = append(ids, taskroute.NewOrderedID(time.Date(2999, 12, 31, 23, 59, 59, 0, time.UTC)))
	if !slices.IsSorted(ids) {
		t.Error("they do not sort by when they were made")
	}
	secrets := map[string]bool{}
	for _, id := range ids {
		if !taskroute.ValidID(id) {
			t.Errorf("%s is not valid", id)
		}
		secrets[id[len(id)-secret:]] = true
	}
	if len(secrets) != len(ids) {
		t.Errorf("%d ids have %d secrets", len(ids), len(secrets))
	}
	now := time.Now()
	a, b := taskroute.NewOrderedID(now), taskroute.NewOrderedID(now)
	if n := len(a) - secret; a[:n] != b[:n] || a[n:] == b[n:] {
		t.Errorf("of one time are %s and %s", a, b)
	}
	for _, id := range []string{a[1:], a + "A", a[:34] + "a", a[:34] + "1", a[:27]} {
		if taskroute.ValidID(id) {
			t.Errorf("%s is valid", id)
		}
	}
}
