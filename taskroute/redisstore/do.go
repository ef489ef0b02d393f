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
	return s.repeat(ctx, func(ctx context.Context) error {
		p := s.client.Pipeline()
		build(p)
		return exec(ctx, p)
	})
}

// repeat calls once, which sends something, while there is hope and time. The first
// time it has a deadline only, which is enough for what the library waits for then.
func (s *Store) repeat(ctx context.Context, once func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	end := time.Now().Add(s.timeout)
	err := s.try(until{ctx, end}, once)
	if err == nil || !passes(err) {
		return err
	}
	bounded, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("%w: redis: %w", ctx.Err(), err)
			}
			return fmt.Errorf("redis gave no answer within %v: %w", s.timeout, err)
		case <-time.After(wait):
		}
		if err = s.try(bounded, once); err == nil || !passes(err) {
			return err
		}
	}
}

// until is a context with a deadline for the library, which sets it on connections.
// There is no timer, which each operation would pay for: Done is not told of it, so who
// waits for anything else must ask for the deadline too.
type until struct {
	context.Context
	end time.Time
}

// Deadline implements context.Context.
func (u until) Deadline() (time.Time, bool) {
	if end, ok := u.Context.Deadline(); ok && end.Before(u.end) {
		return end, true
	}
	return u.end, true
}

// try calls once. A script that the server has forgotten is given to it again;
// that is not a failure.
func (s *Store) try(ctx context.Context, once func(context.Context) error) error {
	err := once(ctx)
	if err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return err
	}
	if err := s.loadScripts(ctx); err != nil {
		return err
	}
	return once(ctx)
}

func exec(ctx context.Context, p redis.Pipeliner) error {
	cmds, err := p.Exec(ctx)
	return outcome(cmds, err)
}

// outcome is what became of some commands of a pipeline that has ended with err: what
// the server says to others is none of theirs.
func outcome(cmds []redis.Cmder, err error) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !isFinding(cmd, err) {
			return err
		}
	}
	if reply := redis.Error(nil); errors.As(err, &reply) {
		return nil
	}
	return err
}

// isFinding tells that where a record was looked for there is nothing, or nothing of ours:
// who reads the reply sees to that.
func isFinding(cmd redis.Cmder, err error) bool {
	looks := cmd.Name() == "get" || cmd.Name() == "getrange"
	return errors.Is(err, redis.Nil) || (looks && isForeign(err))
}

// isForeign tells that a key holds what none of ours does.
func isForeign(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

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
