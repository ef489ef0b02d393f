package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"taskgate/taskroute"
)

// NewID implements taskroute.Backend: Redis finds every key alike, and each
// character of an id is stored four times.
func (s *Store) NewID() string { return taskroute.NewID() }

// Create implements taskroute.Backend.
func (s *Store) Create(ctx context.Context, d taskroute.Doc, nonce string) error {
	if s.memory.isFull(ctx, s) {
		return fmt.Errorf("%w: redis uses more than %d %% of its maxmemory", taskroute.ErrFull, fullPercent)
	}
	x := s.index(d)
	if s.cluster {
		if err := s.enter(ctx, d, x); err != nil {
			return err
		}
	}
	var stored *redis.Cmd
	var copied *redis.IntCmd
	err := s.write(ctx, d.Size(), func(p redis.Pipeliner) {
		s.hold(ctx, p, d, x, 1)
	}, func(p redis.Pipeliner) {
		args := append(s.docArgs(d, x, nonce), d.Size(), d.Limit.Open, d.Limit.Bytes, x.written, s.awaitedOn(d), s.hintOf(d))
		stored = createScript.EvalSha(ctx, p, s.docKeys(d), appendParts(args, d)...)
		copied = s.waitForCopies(ctx, p)
	})
	switch {
	case redis.IsOOMError(err):
		return fmt.Errorf("%w: %w", taskroute.ErrFull, err)
	case err != nil:
		return err
	}
	if err := created(stored, d); err != nil {
		if x.isHeld() && errors.As(err, new(*taskroute.OverLimitError)) {
			s.unhold(ctx, x.holder, []any{d.ID, rank(d.ExpiresAt, 1)})
		}
		return err
	}
	if n := copied.Val(); n < int64(s.copies) {
		return fmt.Errorf("%d of the %d replicas that waitReplicas wants have the task", n, s.copies)
	}
	return nil
}

// The statuses that create.lua and enter.lua return.
const (
	createOverLimit = -1
	createExists    = 0
	createDone      = 1
)

// created reads their reply.
func created(reply *redis.Cmd, d taskroute.Doc) error {
	values, err := reply.Int64Slice()
	if err != nil {
		return err
	}
	switch values[0] {
	case createDone:
		return nil
	case createExists:
		return taskroute.ErrExists
	case createOverLimit:
		if err := d.Within(taskroute.Usage{Open: int(values[1]), Bytes: values[2]}); err != nil {
			return err
		}
	}
	return fmt.Errorf("create script returned %d", values)
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
	args := append(s.docArgs(d, x, nonce), prev, taskroute.NonceMemory, s.keys.changed(), s.hintOf(d), rank(d.ExpiresAt, prev))
	args = appendParts(args, d)
	var stored *redis.Cmd
	err := s.write(ctx, d.Size(), func(p redis.Pipeliner) {
		s.hold(ctx, p, d, x, prev+1)
		s.tell(ctx, p, d)
	}, func(p redis.Pipeliner) {
		stored = replaceScript.EvalSha(ctx, p, s.replaceKeys(d), args...)
	})
	if err != nil {
		return err
	}
	reply, err := stored.Slice()
	if err != nil {
		return err
	}
	status, _ := reply[0].(int64)
	switch status {
	case replaceDone:
		if s.cluster {
			s.letGo(ctx, d, reply, prev)
			s.settle(ctx, d, x, reply)
		}
		return nil
	case replaceAgain:
		return nil
	case replaceMissing:
		return taskroute.ErrNotFound
	case replaceConflict:
		return taskroute.ErrConflict
	}
	return fmt.Errorf("replace script returned status %d", status)
}

// write sends the index entries and the record, of the given size: in one round
// trip where one server has them all, since it runs them in order; in two where it
// may not.
func (s *Store) write(ctx context.Context, size int64, indexes, record func(redis.Pipeliner)) error {
	if !s.cluster {
		do := s.do
		if size <= maxShared {
			do = s.share
		}
		return do(ctx, func(p redis.Pipeliner) { indexes(p); record(p) })
	}
	if err := s.do(ctx, indexes); err != nil {
		return err
	}
	return s.do(ctx, record)
}

func (s *Store) index(d taskroute.Doc) index {
	return index{open: d.Open, runnable: d.Runnable, written: s.clock.millis(), holder: d.Holder}
}

// docKeys are the document's, and those of its owner where one server has both.
func (s *Store) docKeys(d taskroute.Doc) []string {
	keys := []string{s.keys.task(d.ID), s.keys.tomb(d.ID)}
	if s.cluster {
		return keys
	}
	return append(keys, s.ownKeys(d)...)
}

// replaceKeys are those, and what the keys of held documents begin with, where one
// server has them all: only the script knows who has held the document.
func (s *Store) replaceKeys(d taskroute.Doc) []string {
	keys := []string{s.keys.task(d.ID), s.keys.tomb(d.ID)}
	if s.cluster {
		return keys
	}
	return append(append(keys, s.keys.held("")), s.ownKeys(d)...)
}

func (s *Store) ownKeys(d taskroute.Doc) []string {
	if d.Owner == "" {
		return nil
	}
	return s.keys.own(d.Owner)
}

// docArgs are the arguments that both scripts begin with.
func (s *Store) docArgs(d taskroute.Doc, x index, nonce string) []any {
	return []any{nonce, x.String(), millis(d.ExpiresAt), millis(d.ForgetAt), d.Owner, d.ID}
}

// millis is a time as the scripts have it; 0: never.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// appendParts copies the parts: a caller who has given up may change its own while
// what it has written is still on its way.
func appendParts(args []any, d taskroute.Doc) []any {
	shared := d.Size() <= maxShared
	for p, part := range d.Parts {
		if part != nil {
			if shared {
				part = slices.Clone(part)
			}
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

// Revisions implements taskroute.Backend.
func (s *Store) Revisions(ctx context.Context, ids []string) ([]uint64, error) {
	replies := make([]*redis.StringCmd, len(ids))
	if err := s.do(ctx, func(p redis.Pipeliner) {
		for i, id := range ids {
			replies[i] = p.HGet(ctx, s.keys.task(id), "rev")
		}
	}); err != nil {
		return nil, err
	}
	all := make([]uint64, len(ids))
	for i, reply := range replies {
		all[i], _ = strconv.ParseUint(reply.Val(), 10, 64) // what is no number is no document of ours
	}
	return all, nil
}
