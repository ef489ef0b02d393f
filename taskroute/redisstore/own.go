package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"taskgate/taskroute"
)

// Where one server has all keys, the scripts that write a document count it as its
// owner's. In a Cluster it is counted in before, and settled after, by scripts of
// their own: so none that is there is missing.

// admit counts a new document in, if its owner may have it.
func (s *Store) admit(ctx context.Context, d taskroute.Doc, x index) error {
	if d.Owner == "" {
		return nil
	}
	var entered *redis.Cmd
	if err := s.do(ctx, func(p redis.Pipeliner) {
		entered = enterScript.EvalSha(ctx, p, s.keys.own(d.Owner), d.ID, x.String(), millis(d.ExpiresAt), hourOf(d.ExpiresAt), d.Size(), d.Limit.Open, d.Limit.Bytes, x.written)
	}); err != nil {
		return err
	}
	reply, err := entered.Slice()
	if err != nil {
		return err
	}
	return created(reply, d)
}

// hourOf names the hour, as own.lua has them, in which what expires then is counted.
func hourOf(expires time.Time) string {
	if expires.IsZero() {
		return "never"
	}
	hour := time.Hour.Milliseconds()
	return strconv.FormatInt((expires.UnixMilli()+hour-1)/hour, 10)
}

// settle counts a document as it is after a write; written is what the script
// said of it. When it fails, what the owner has is wrong until the document expires.
func (s *Store) settle(ctx context.Context, d taskroute.Doc, x index, written []any) {
	if d.Owner == "" {
		return
	}
	before, expired, grown, size := written[2], written[3], written[4], written[5]
	if d.Open && grown == int64(0) {
		return
	}
	_ = s.do(ctx, func(p redis.Pipeliner) {
		settleScript.EvalSha(ctx, p, s.keys.own(d.Owner), d.ID, before, x.String(), expired, millis(d.ExpiresAt), grown, size)
	})
}

// Usage implements taskroute.Backend.
func (s *Store) Usage(ctx context.Context, owner string) (taskroute.Usage, error) {
	var used *redis.Cmd
	if err := s.do(ctx, func(p redis.Pipeliner) {
		used = usageScript.EvalSha(ctx, p, s.keys.own(owner), s.clock.millis())
	}); err != nil {
		return taskroute.Usage{}, err
	}
	values, err := used.Int64Slice()
	if err != nil {
		return taskroute.Usage{}, err
	}
	return taskroute.Usage{Open: int(values[0]), Bytes: values[1]}, nil
}

// ownedLists are the sorted sets that Owned goes through, as its cursor names
// them, in the order of keys.own.
var ownedLists = []string{"open", "ended"}

// place is that of an entry in one of the lists.
type place struct {
	list       int
	expiry, id string // "" for the beginning
}

func (p place) String() string { return ownedLists[p.list] + " " + p.expiry + " " + p.id }

func parsePlace(cursor string) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	name, rest, _ := strings.Cut(cursor, " ")
	expiry, id, _ := strings.Cut(rest, " ")
	_, err := strconv.ParseUint(expiry, 10, 63)
	for i, list := range ownedLists {
		if name == list && (err == nil || expiry == "inf") && taskroute.ValidID(id) {
			return place{i, expiry, id}, nil
		}
	}
	return place{}, taskroute.ErrCursor
}

// Owned implements taskroute.Backend: in order of expiry, the open ones first.
func (s *Store) Owned(ctx context.Context, owner, cursor string, limit int) (ids []string, next string, err error) {
	at, err := parsePlace(cursor)
	if err != nil {
		return nil, "", err
	}
	for {
		entries, err := s.ownedFrom(ctx, owner, at, limit-len(ids))
		if err != nil {
			return nil, "", fmt.Errorf("read what an owner has: %w", err)
		}
		for i := 0; i+1 < len(entries); i += 2 {
			at.id, at.expiry = entries[i], entries[i+1]
			ids = append(ids, at.id)
		}
		if len(ids) >= limit {
			return ids, at.String(), nil
		}
		if at.list++; at.list == len(ownedLists) {
			return ids, "", nil
		}
		at.expiry, at.id = "", ""
	}
}

// ownedFrom is up to limit pairs of id and expiry.
func (s *Store) ownedFrom(ctx context.Context, owner string, at place, limit int) ([]string, error) {
	var entries *redis.Cmd
	if err := s.do(ctx, func(p redis.Pipeliner) {
		entries = ownedScript.EvalSha(ctx, p, s.keys.own(owner)[at.list:at.list+1], s.clock.millis(), limit, at.expiry, at.id)
	}); err != nil {
		return nil, err
	}
	return entries.StringSlice()
}
