package taskroute

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A note is a small value that all replicas share and that is no task: what a
// session has asked for, what was said on a stream. It is a document beside the
// records, so that it is as durable as they are and changes by the same
// compare-and-swap.

// noteLife is how long a note is good, kept with it because a Backend does not
// give expiry back.
type noteLife struct {
	Until time.Time `json:"until,omitzero"` // zero: for ever
}

// noteID is never a ValidID, so no client can name a note.
func noteID(key string) string { return "note-" + key }

// Note is the note under key; nil when there is none, or its time is over.
func (s *Store) Note(ctx context.Context, key string) ([]byte, error) {
	text, _, err := s.note(ctx, key)
	return text, err
}

// ChangeNote writes what change makes of the note under key, for ttl from now on
// (0: for ever), reading again and repeating when somebody else was faster. An
// absent note is nil, and so is the outcome of a change that leaves it as it is.
// It returns the note as it then stands. An error of change ends it.
func (s *Store) ChangeNote(ctx context.Context, key string, ttl time.Duration, change func(old []byte) ([]byte, error)) ([]byte, error) {
	for {
		old, revision, err := s.note(ctx, key)
		if err != nil {
			return nil, err
		}
		text, err := change(old)
		if err != nil || text == nil || bytes.Equal(text, old) {
			return old, err
		}
		err = s.writeNote(ctx, key, revision, text, ttl)
		switch {
		case err == nil:
			s.watchers.wake(noteID(key))
			return text, nil
		case !lostRace(err) || ctx.Err() != nil:
			return nil, fmt.Errorf("write note: %w", err)
		}
	}
}

// WatchNotes returns a Watcher of the notes under keys. Stop releases it.
func (s *Store) WatchNotes(keys ...string) *Watcher {
	ids := make([]string, len(keys))
	for i, key := range keys {
		ids[i] = noteID(key)
	}
	return s.watchers.add(ids)
}

// lostRace tells errors after which to read again.
func lostRace(err error) bool {
	return errors.Is(err, ErrExists) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound)
}

// note comes with the revision that is to be written over; 0: there is none.
func (s *Store) note(ctx context.Context, key string) (text []byte, revision uint64, err error) {
	d, err := s.backend.Get(ctx, noteID(key), PartState, PartOutcome)
	if errors.Is(err, ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read note: %w", err)
	}
	var life noteLife
	if err := json.Unmarshal(d.Parts[PartState], &life); err != nil {
		return nil, 0, fmt.Errorf("stored note is damaged: %w", err)
	}
	if !life.Until.IsZero() && !s.opts.Now().Before(life.Until) {
		return nil, d.Revision, nil
	}
	return d.Parts[PartOutcome], d.Revision, nil
}

func (s *Store) writeNote(ctx context.Context, key string, revision uint64, text []byte, ttl time.Duration) error {
	var life noteLife
	if ttl > 0 {
		life.Until = s.opts.Now().Add(ttl)
	}
	state, err := json.Marshal(life)
	if err != nil {
		return err
	}
	d := Doc{ID: noteID(key), ExpiresAt: life.Until, ForgetAt: life.Until}
	d.Parts[PartState], d.Parts[PartOutcome] = state, text
	if revision == 0 {
		return s.backend.Create(ctx, d, rand.Text())
	}
	return s.backend.Replace(ctx, revision, d, rand.Text())
}
