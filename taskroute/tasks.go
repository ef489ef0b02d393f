package taskroute

import (
	"context"
	"errors"
	"fmt"
)

// Tasks pages through the tasks of an owner that have not expired, whoever they
// are shared with; each is as Get returns it. Cursor and limit are as in
// Backend.Owned. Errors: ErrCursor.
func (s *Store) Tasks(ctx context.Context, owner Owner, cursor string, limit int) (tasks []*Record, next string, err error) {
	for {
		ids, next, err := s.backend.Owned(ctx, owner.String(), cursor, limit-len(tasks))
		if err != nil {
			return nil, "", fmt.Errorf("list tasks: %w", err)
		}
		for _, id := range ids {
			r, err := s.Get(ctx, By{owner, Task}, id)
			switch {
			case err == nil:
				tasks = append(tasks, r)
			case !passedOver(err):
				return nil, "", err
			}
		}
		if next == "" || len(tasks) >= limit {
			return tasks, next, nil
		}
		cursor = next
	}
}

// passedOver tells what a list leaves out: a held call, which is no task; what has
// expired, or was never written because its writer died; what cannot be read.
func passedOver(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired) || errors.Is(err, ErrUnreadable) || errors.Is(err, ErrNewer)
}
