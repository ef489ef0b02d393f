package taskroute

import (
	"bytes"
	"context"
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

// notePrefix begins the id of a note, which is never a ValidID: no client can
// name a note.
const notePrefix = "note-"

func noteID(key string) string { return notePrefix + key }

// The parts of a note, for what is sealed.
const (
	noteState = "note state"
	noteText  = "note text"
)

// Note is the note under key; nil when there is none, or its time is over.
func (s *Store) Note(ctx context.Context, key string) ([]byte, error) {
	text, _, err := s.note(ctx, key)
	return text, err
}

// ChangeNote writes what change makes of the note under key, for ttl from now on
// (0: for ever), reading again and repeating when somebody else was faster. An
// absent note is nil, and so is the outcome of a change that leaves it as it is. A
// note is text: its first byte is not a control character. It returns the note as it then stands. An error of change ends it.
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
	life, text, err := s.openNote(d)
	if err != nil {
		return nil, 0, err
	}
	if !life.Until.IsZero() && !s.opts.Now().Before(life.Until) {
		return nil, d.Revision, nil
	}
	return text, d.Revision, nil
}

// openNote reads the document of a note. Errors: ErrUnreadable.
func (s *Store) openNote(d Doc) (life noteLife, text []byte, err error) {
	state, err := s.opts.Seal.Open(d.Parts[PartState], d.ID, noteState)
	if err == nil {
		err = json.Unmarshal(state, &life)
	}
	if err == nil {
		text, err = s.opts.Seal.Open(d.Parts[PartOutcome], d.ID, noteText)
	}
	if err != nil {
		return life, nil, fmt.Errorf("%w: a note: %w", ErrUnreadable, err)
	}
	return life, text, nil
}

func (s *Store) writeNote(ctx context.Context, key string, revision uint64, text []byte, ttl time.Duration) error {
	var life noteLife
	if ttl > 0 {
		life.Until = s.opts.Now().Add(ttl)
	}
	d, err := s.noteDoc(noteID(key), life, text)
	switch {
	case err != nil:
		return err
	case revision == 0:
		return s.backend.Create(ctx, d, newNonce())
	}
	return s.backend.Replace(ctx, revision, d, newNonce())
}

// noteDoc is the document of a note, sealed like a record.
func (s *Store) noteDoc(id string, life noteLife, text []byte) (Doc, error) {
	state, err := json.Marshal(life)
	if err != nil {
		return Doc{}, fmt.Errorf("encode note: %w", err)
	}
	d := Doc{ID: id, ExpiresAt: life.Until, ForgetAt: life.Until, Awaited: true}
	d.Parts[PartState] = s.opts.Seal.Seal(state, id, noteState)
	d.Parts[PartOutcome] = s.opts.Seal.Seal(text, id, noteText)
	return d, nil
}
