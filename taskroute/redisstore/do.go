package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Waits between tries of one operation.
const (
	firstWait = 5 * time.Millisecond
	maxWait   = 200 * time.Millisecond
)

// do sends one pipeline, one round trip, and sends it again while there is hope
// and time. So each script in it must bear to be run twice: writes are known
// again by their nonce. build is called for each try and keeps the commands
// whose replies it wants.
func (s *Store) do(ctx context.Context, build func(redis.Pipeliner)) error {
	return s.repeat(ctx, exec, build)
}

// share is do for what is small, and not read: it may go with that of others. What
// build puts in must stay as it is, also when ctx ends first.
func (s *Store) share(ctx context.Context, build func(redis.Pipeliner)) error {
	if s.cluster || s.copies > 0 { // each command has a server, or a WAIT, of its own
		return s.do(ctx, build)
	}
	return s.repeat(ctx, s.writers.send, build)
}

// sender sends a pipeline once.
type sender func(context.Context, redis.Pipeliner) error

func (s *Store) repeat(ctx context.Context, send sender, build func(redis.Pipeliner)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		err := s.try(bounded, send, build)
		if err == nil || !passes(err) {
			return err
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("%w: redis: %w", ctx.Err(), err)
			}
			return fmt.Errorf("redis gave no answer within %v: %w", s.timeout, err)
		case <-time.After(wait):
		}
	}
}

// try sends the pipeline once. A script that the server has forgotten is given
// to it again; that is not a failure.
func (s *Store) try(ctx context.Context, send sender, build func(redis.Pipeliner)) error {
	err := send(ctx, s.pipeline(build))
	if !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return err
	}
	if err := s.loadScripts(ctx); err != nil {
		return err
	}
	return send(ctx, s.pipeline(build))
}

func (s *Store) pipeline(build func(redis.Pipeliner)) redis.Pipeliner {
	p := s.client.Pipeline()
	build(p)
	return p
}

// passes tells the errors that may be over soon: trouble on the way, and the
// replies of a server that starts, fails over or is busy.
func passes(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return !errors.Is(err, redis.ErrClosed) && !errors.Is(err, context.Canceled)
	}
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsClusterDownError(err) ||
		redis.IsTryAgainError(err) || redis.IsMasterDownError(err) || redis.IsMaxClientsError(err) ||
		redis.IsNoReplicasError(err) || redis.HasErrorPrefix(err, "BUSY") || redis.HasErrorPrefix(err, "NOSCRIPT")
}
