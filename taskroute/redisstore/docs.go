package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"taskgate/taskroute"
)

// Create implements taskroute.Backend.
func (s *Store) Create(ctx context.Context, d taskroute.Doc, nonce string) error {
	if s.memory.isFull(ctx, s) {
		return fmt.Errorf("%w: redis uses more than %d %% of its maxmemory", taskroute.ErrFull, fullPercent)
	}
	x := s.index(d)
	channel := ""
	if d.Awaited {
		channel = s.keys.changed()
	}
	args := appendParts(append(s.docArgs(d, x, nonce), channel, s.hintOf(d)), d)
	var stored *redis.Cmd
	var copied *redis.IntCmd
	err := s.write(ctx, func(p redis.Pipeliner) {
		s.hold(ctx, p, d, x, 1)
		s.countIn(ctx, p, d)
	}, func(p redis.Pipeliner) {
		stored = createScript.EvalSha(ctx, p, s.docKeys(d.ID), args...)
		copied = s.waitForCopies(ctx, p)
	})
	switch {
	case redis.IsOOMError(err):
		return fmt.Errorf("%w: %w", taskroute.ErrFull, err)
	case err != nil:
		return err
	}
	if n, err := stored.Int(); err != nil {
		return err
	} else if n == 0 {
		return taskroute.ErrExists
	}
	if n := copied.Val(); n < int64(s.copies) {
		return fmt.Errorf("%d of the %d replicas that waitReplicas wants have the task", n, s.copies)
	}
	return nil
}

// waitForCopies has the pipeline, all of which goes over one connection, end when
// enough replicas have what was written, also when that was in an earlier try; or
// after a part of the time that there is, so that one try can still follow.
func (s *Store) waitForCopies(ctx context.Context, p redis.Pipeliner) *redis.IntCmd {
	copied := redis.NewIntCmd(ctx, "wait", s.copies, (s.timeout / 4).Milliseconds())
	if s.copies > 0 {
		_ = p.Process(ctx, copied) // it is sent with the others
	}
	return copied
}

// The statuses that replace.lua returns.
const (
	replaceMissing  = -1
	replaceConflict = 0
	replaceDone     = 1
	replaceAgain    = 2
)

// Replace implements taskroute.Backend.
func (s *Store) Replace(ctx context.Context, prev uint64, d taskroute.Doc, nonce string) error {
	x := s.index(d)
	args := append(s.docArgs(d, x, nonce), prev, taskroute.NonceMemory, s.keys.changed(), s.hintOf(d))
	args = appendParts(args, d)
	var stored *redis.Cmd
	err := s.write(ctx, func(p redis.Pipeliner) {
		s.hold(ctx, p, d, x, prev+1)
		s.tell(ctx, p, d)
	}, func(p redis.Pipeliner) {
		stored = replaceScript.EvalSha(ctx, p, s.docKeys(d.ID), args...)
	})
	if err != nil {
		return err
	}
	reply, err := stored.Slice()
	if err != nil {
		return err
	}
	status, _ := reply[0].(int64)
	before, _ := reply[1].(string)
	switch status {
	case replaceDone, replaceAgain:
		s.letGo(ctx, d, x, before, prev)
		return nil
	case replaceMissing:
		return taskroute.ErrNotFound
	case replaceConflict:
		return taskroute.ErrConflict
	}
	return fmt.Errorf("replace script returned status %d", status)
}

// write sends the index entries and the record: in one round trip where one
// server has them all, since it runs them in order; in two where it may not.
func (s *Store) write(ctx context.Context, indexes, record func(redis.Pipeliner)) error {
	if !s.cluster {
		return s.do(ctx, func(p redis.Pipeliner) { indexes(p); record(p) })
	}
	if err := s.do(ctx, indexes); err != nil {
		return err
	}
	return s.do(ctx, record)
}

func (s *Store) index(d taskroute.Doc) index {
	return index{open: d.Open, runnable: d.Runnable, written: s.clock.millis(), holder: d.Holder}
}

func (s *Store) docKeys(id string) []string { return []string{s.keys.task(id), s.keys.tomb(id)} }

// docArgs are the arguments that both scripts begin with.
func (s *Store) docArgs(d taskroute.Doc, x index, nonce string) []any {
	var expire, forget int64
	if !d.ExpiresAt.IsZero() {
		expire, forget = d.ExpiresAt.UnixMilli(), d.ForgetAt.UnixMilli()
	}
	return []any{nonce, x.String(), expire, forget, d.Owner}
}

func appendParts(args []any, d taskroute.Doc) []any {
	for p, part := range d.Parts {
		if part != nil {
			args = append(args, fields[p], part)
		}
	}
	return args
}

// Get implements taskroute.Backend.
func (s *Store) Get(ctx context.Context, id string, parts ...taskroute.Part) (taskroute.Doc, error) {
	names := append(make([]string, 0, 1+len(parts)), "rev")
	for _, p := range parts {
		names = append(names, fields[p])
	}
	var hash *redis.SliceCmd
	var tomb *redis.StringCmd
	if err := s.do(ctx, func(p redis.Pipeliner) {
		hash, tomb = p.HMGet(ctx, s.keys.task(id), names...), p.Get(ctx, s.keys.tomb(id))
	}); err != nil {
		return taskroute.Doc{}, err
	}
	values := hash.Val()
	rev, ok := values[0].(string)
	if !ok {
		return taskroute.Doc{Owner: tomb.Val()}, taskroute.ErrNotFound
	}
	d := taskroute.Doc{ID: id}
	var err error
	if d.Revision, err = strconv.ParseUint(rev, 10, 64); err != nil {
		return taskroute.Doc{}, fmt.Errorf("%w: its revision: %w", taskroute.ErrUnreadable, err)
	}
	for i, p := range parts {
		if v, ok := values[i+1].(string); ok {
			d.Parts[p] = []byte(v)
		}
	}
	return d, nil
}
