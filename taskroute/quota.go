package taskroute

import (
	"context"
	"fmt"
)

// TooManyOpenError: an owner has as many open records as it may have.
type TooManyOpenError struct{ Limit int }

func (e *TooManyOpenError) Error() string {
	return fmt.Sprintf("too many open tasks: the limit is %d; wait for some to end, or cancel them", e.Limit)
}

// CheckOpen fails with *TooManyOpenError when owner has limit open records or
// more. The count is a hint: several creators at once may go a little over.
// A limit of 0 means none.
func (s *Store) CheckOpen(ctx context.Context, owner Owner, limit int) error {
	if limit == 0 {
		return nil
	}
	n, err := s.backend.CountOpen(ctx, owner.String())
	if err != nil {
		return fmt.Errorf("count open tasks: %w", err)
	}
	if n >= limit {
		return &TooManyOpenError{Limit: limit}
	}
	return nil
}
