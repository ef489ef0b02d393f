package taskroute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Rekeyed counts what Rekey has seen.
type Rekeyed struct {
	Records   int // all that are there, and notes
	Rewritten int // of them, those that were not sealed by the first key
	Failed    int // of them, those that could not be read, and stay as they are
}

const rekeyPage = 500

// Rekey writes every record and note anew that is not sealed by the first key, while
// others may read and write them. failed is told what could not be read. Once
// nothing was rewritten and nothing failed, the other keys are not needed.
func (s *Store) Rekey(ctx context.Context, failed func(id string, err error)) (Rekeyed, error) {
	var done Rekeyed
	for cursor := ""; ; {
		ids, next, err := s.backend.List(ctx, cursor, rekeyPage)
		if err != nil {
			return done, fmt.Errorf("list tasks: %w", err)
		}
		for _, id := range ids {
			again := s.anew(id)
			if again == nil {
				continue
			}
			rewritten, err := s.rekey(ctx, id, again)
			if stays(err) {
				failed(id, err)
			}
			if err := done.count(rewritten, err); err != nil {
				return done, err
			}
		}
		if next == "" {
			return done, nil
		}
		cursor = next
	}
}

// count returns the errors that end it all.
func (d *Rekeyed) count(rewritten bool, err error) error {
	switch {
	case errors.Is(err, ErrNotFound): // expired meanwhile
		return nil
	case stays(err):
		d.Failed++
	case err != nil:
		return err
	case rewritten:
		d.Rewritten++
	}
	d.Records++
	return nil
}

// stays tells of a record that this program cannot write.
func stays(err error) bool { return errors.Is(err, ErrUnreadable) || errors.Is(err, ErrNewer) }

// anew is how a document is read, and written with the first key; nil for a
// reservation, which holds nothing of anybody's.
func (s *Store) anew(id string) func(Doc) (Doc, error) {
	switch {
	case ValidID(id):
		return func(d Doc) (Doc, error) {
			r, err := s.decode(d)
			if err != nil {
				return Doc{}, err
			}
			return s.encode(r, allParts)
		}
	case strings.HasPrefix(id, notePrefix):
		return func(d Doc) (Doc, error) {
			life, text, err := s.openNote(d)
			if err != nil {
				return Doc{}, err
			}
			return s.noteDoc(id, life, text)
		}
	}
	return nil
}

// rekey writes one document anew, whatever its status: what it says stays the same.
func (s *Store) rekey(ctx context.Context, id string, anew func(Doc) (Doc, error)) (rewritten bool, err error) {
	for {
		old, err := s.backend.Get(ctx, id, PartState, PartInput, PartOutcome, PartRequest)
		if err != nil {
			return false, fmt.Errorf("read: %w", err)
		}
		if s.isCurrent(old) {
			return false, nil
		}
		d, err := anew(old)
		if err != nil {
			return false, err
		}
		if err = s.backend.Replace(ctx, old.Revision, d, newNonce()); !errors.Is(err, ErrConflict) || ctx.Err() != nil {
			return err == nil, err
		}
	}
}

func (s *Store) isCurrent(d Doc) bool {
	return !slices.ContainsFunc(d.Parts[:], func(part []byte) bool { return part != nil && !s.opts.Seal.IsCurrent(part) })
}
