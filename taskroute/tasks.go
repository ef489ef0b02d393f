package taskroute

import (
	"context"
	"errors"
	"fmt"
)

// Tasks pages through the tasks of an owner that have not expired, with nothing but
// their states. Those that others share with the owner are not among them. Cursor
// and limit are as in Backend.Owned. Errors: ErrCursor.
func (s *Store) Tasks(ctx context.Context, owner Owner, cursor string, limit int) (tasks []*Record, next string, err error) {
	for {
		var ids []string
		if ids, cursor, err = s.backend.Owned(ctx, owner.String(), cursor, limit-len(tasks)); err != nil {
			return nil, "", fmt.Errorf("list tasks: %w", err)
		}
		for _, id := range ids {
			r, err := s.glance(ctx, By{owner, Task}, id)
			switch {
			case err == nil:
				tasks = append(tasks, r)
			case !passedOver(err):
				return nil, "", fmt.Errorf("list tasks: %w", err)
			}
		}
		if cursor == "" || len(tasks) >= limit {
			return tasks, cursor, nil
		}
	}
}

// glance is Get for no more than the state.
func (s *Store) glance(ctx context.Context, by By, id string) (*Record, error) {
	r, known := s.terminal.Get(id)
	if !known {
		var err error
		if r, err = s.load(ctx, id, PartState); err != nil {
			return nil, err
		}
	}
	return r, s.admit(by, r)
}

// passedOver tells what a list leaves out: a held call, which is no task; what has
// expired, or was never written because its writer died; what cannot be read.
func passedOver(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired) || errors.Is(err, ErrUnreadable) || errors.Is(err, ErrNewer)
}
