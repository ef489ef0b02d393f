package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		if err := s.admit(ctx, d, x); err != nil {
			return err
		}
	}
	keys := []string{s.keys.task(d.ID), s.keys.tomb(d.ID)}
	args := append(s.docArgs(d, x, nonce), newRecord(d, x.String(), nonce), hourOf(d.ExpiresAt), d.Size(), d.Limit.Open, d.Limit.Bytes, x.written)
	args = append(args, s.awaited(d)...)
	for p, part := range d.Parts {
		if isApart(part) {
			keys, args = append(keys, s.keys.part(d.ID, parts[p])), append(args, steady(d, taskroute.Part(p)))
		}
	}
	copied := s.waitForCopies(ctx)
	w, err := s.put(ctx, d.Size(), write{entry: entryOf(d, x, 1), script: createScript, keys: append(keys, s.ownKeys(d)...), args: args, copied: copied})
	switch {
	case redis.IsOOMError(err):
		return fmt.Errorf("%w: %w", taskroute.ErrFull, err)
	case err != nil:
		return unreadable(err)
	}
	if err := created(w.reply, d); err != nil {
		if x.isHeld() && errors.As(err, new(*taskroute.OverLimitError)) {
			s.unhold(ctx, x.holder, []any{d.ID, rank(d.ExpiresAt, 1)})
		}
		return err
	}
	if copied != nil && copied.Val() < int64(s.copies) {
		return fmt.Errorf("%d of the %d replicas that waitReplicas wants have the task", copied.Val(), s.copies)
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
func created(reply []any, d taskroute.Doc) error {
	switch status, _ := reply[0].(int64); status {
	case createDone:
		return nil
	case createExists:
		return taskroute.ErrExists
	case createOverLimit:
		open, _ := reply[1].(int64)
		bytes, _ := reply[2].(int64)
		if err := d.Within(taskroute.Usage{Open: int(open), Bytes: bytes}); err != nil {
			return err
		}
	}
	return fmt.Errorf("create script returned %v", reply)
}

// waitForCopies has the pipeline, all of which goes over one connection, end when
// enough replicas have what was written, also when that was in an earlier try; or
// after a part of the time that there is, so that one try can still follow. It is nil
// when there need be none.
func (s *Store) waitForCopies(ctx context.Context) *redis.IntCmd {
	if s.copies == 0 {
		return nil
	}
	return redis.NewIntCmd(ctx, "wait", s.copies, (s.timeout / 4).Milliseconds())
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
	for p, part := range d.Parts {
		if part != nil {
			args = append(args, placed(taskroute.Part(p), part), steady(d, taskroute.Part(p)))
		}
	}
	w, err := s.put(ctx, d.Size(), write{
		entry: entryOf(d, x, prev+1), script: replaceScript, keys: s.replaceKeys(d), args: args,
	})
	if err != nil {
		return unreadable(err)
	}
	status, _ := w.reply[0].(int64)
	switch status {
	case replaceDone:
		if s.cluster {
			s.letGo(ctx, d, w.reply, prev)
			s.settle(ctx, d, x, w.reply)
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

// unreadable is err, as ErrUnreadable where it says so.
func unreadable(err error) error {
	if isForeign(err) || redis.HasErrorPrefix(err, "UNREADABLE") {
		return fmt.Errorf("%w: %w", taskroute.ErrUnreadable, err)
	}
	return err
}

func (s *Store) index(d taskroute.Doc) index {
	return index{open: d.Open, runnable: d.Runnable, written: s.clock.millis(), holder: d.Holder}
}

// replaceKeys are the document's, those of its owner, and what the keys of held
// documents begin with, where one server has them all: only the script knows who has
// held the document.
func (s *Store) replaceKeys(d taskroute.Doc) []string {
	keys := append(make([]string, 0, 7), s.keys.task(d.ID), s.keys.tomb(d.ID), s.keys.part(d.ID, ""))
	if s.cluster {
		return keys
	}
	return append(append(keys, s.keys.held("")), s.ownKeys(d)...)
}

// ownKeys are those of the document's owner, where one server has them too.
func (s *Store) ownKeys(d taskroute.Doc) []string {
	if d.Owner == "" || s.cluster {
		return nil
	}
	return s.keys.own(d.Owner)
}

// docArgs are the arguments that both scripts begin with.
func (s *Store) docArgs(d taskroute.Doc, x index, nonce string) []any {
	forget := millis(d.ForgetAt)
	if !d.ForgetAt.After(d.ExpiresAt) {
		forget = 0
	}
	return append(make([]any, 0, 20), nonce, x.String(), millis(d.ExpiresAt), forget, d.Owner, d.ID)
}

// millis is a time as the scripts have it; 0: never.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// steady is a part that nobody changes: a caller who has given up may change its own
// while what it has written is still on its way with that of others.
func steady(d taskroute.Doc, p taskroute.Part) []byte {
	if d.Size() <= maxShared {
		return slices.Clone(d.Parts[p])
	}
	return d.Parts[p]
}

// Get implements taskroute.Backend.
func (s *Store) Get(ctx context.Context, id string, wanted ...taskroute.Part) (taskroute.Doc, error) {
	keys := append(make([]string, 0, 1+len(wanted)), s.keys.task(id))
	for _, p := range wanted {
		keys = append(keys, s.keys.part(id, parts[p]))
	}
	var found *redis.SliceCmd
	if err := s.repeat(ctx, func(ctx context.Context) error {
		found = s.client.MGet(ctx, keys...)
		return found.Err()
	}); err != nil {
		return taskroute.Doc{}, err
	}
	text, ok := found.Val()[0].(string)
	if !ok {
		return s.absent(ctx, id)
	}
	r, err := parseRecord(text)
	if err != nil {
		return taskroute.Doc{}, err
	}
	d := taskroute.Doc{ID: id, Revision: r.revision}
	for i, p := range wanted {
		d.Parts[p] = r.parts[p]
		if part, ok := found.Val()[1+i].(string); r.apart[p] && ok {
			d.Parts[p] = []byte(part)
		} else if r.apart[p] {
			return taskroute.Doc{}, fmt.Errorf("%w: a part is missing", taskroute.ErrUnreadable)
		}
	}
	return d, nil
}

// absent tells of a document that is not there whose it was, or that something else is.
func (s *Store) absent(ctx context.Context, id string) (taskroute.Doc, error) {
	var kind *redis.StatusCmd
	var tomb *redis.StringCmd
	if err := s.do(ctx, func(p redis.Pipeliner) {
		kind, tomb = p.Type(ctx, s.keys.task(id)), p.Get(ctx, s.keys.tomb(id))
	}); err != nil {
		return taskroute.Doc{}, err
	}
	switch kind.Val() {
	case "none":
		return taskroute.Doc{Owner: tomb.Val()}, taskroute.ErrNotFound
	case "string": // it has come only now
		return taskroute.Doc{}, taskroute.ErrNotFound
	}
	return taskroute.Doc{}, fmt.Errorf("%w: it is a %s, as earlier versions have written it", taskroute.ErrUnreadable, kind.Val())
}

// Revisions implements taskroute.Backend.
func (s *Store) Revisions(ctx context.Context, ids []string) ([]uint64, error) {
	replies := make([]*redis.StringCmd, len(ids))
	if err := s.do(ctx, func(p redis.Pipeliner) {
		for i, id := range ids {
			replies[i] = p.GetRange(ctx, s.keys.task(id), 0, numberSize-1)
		}
	}); err != nil {
		return nil, err
	}
	all := make([]uint64, len(ids))
	for i, reply := range replies {
		if head := reply.Val(); len(head) == numberSize { // else it is no document of ours
			all[i] = uint64(number(head))
		}
	}
	return all, nil
}
