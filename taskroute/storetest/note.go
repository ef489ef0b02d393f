package storetest

import (
	"strconv"
	"testing"
	"time"

	"taskgate/taskroute"
)

const noteKey = "a-key"

func wantNote(t *testing.T, s *taskroute.Store, want string) {
	t.Helper()
	text, err := s.Note(t.Context(), noteKey)
	if err != nil || string(text) != want || (text == nil) != (want == "") {
		t.Fatalf("note is %q, %v; want %q", text, err, want)
	}
}

func changeNote(t *testing.T, s *taskroute.Store, ttl time.Duration, text string) {
	t.Helper()
	if _, err := s.ChangeNote(t.Context(), noteKey, ttl, func([]byte) ([]byte, error) { return []byte(text), nil }); err != nil {
		t.Fatalf("change note: %v", err)
	}
}

// noteCounts: every one of many parallel changes is made over the one before.
func noteCounts(t *testing.T, b taskroute.Backend) {
	s := storeOver(t, b)
	const writers = 16
	for i, err := range atOnce(writers, func(int) error {
		_, err := s.ChangeNote(t.Context(), noteKey, time.Hour, func(old []byte) ([]byte, error) {
			n, _ := strconv.Atoi(string(old)) // an absent note counts as 0
			return strconv.AppendInt(nil, int64(n+1), 10), nil
		})
		return err
	}) {
		if err != nil {
			t.Fatalf("writer %d: %v", i, err)
		}
	}
	wantNote(t, s, strconv.Itoa(writers))
}

// notesGo: a note is there for its time and can be written again afterwards.
func notesGo(t *testing.T, b taskroute.Backend) {
	s := storeOver(t, b)
	wantNote(t, s, "")
	changeNote(t, s, 0, "for ever")
	wantNote(t, s, "for ever")
	changeNote(t, s, 20*time.Millisecond, "for a moment")
	eventually(t, "the note is gone", func() bool {
		text, err := s.Note(t.Context(), noteKey)
		if err != nil {
			t.Fatal(err)
		}
		return text == nil
	})
	changeNote(t, s, time.Hour, "again")
	wantNote(t, s, "again")
}

// noteWakes: who watches a note hears of its change.
func noteWakes(t *testing.T, b taskroute.Backend) {
	s := storeOver(t, b)
	w := s.WatchNotes(noteKey)
	defer w.Stop()
	changeNote(t, s, time.Hour, "changed")
	eventually(t, "the watcher is told", func() bool { return len(w.Take()) > 0 })
}
