package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"

	"taskgate/taskroute"
)

// usageOf is what an owner has.
func usageOf(tx *bbolt.Tx, owner string) (taskroute.Usage, error) {
	raw := tx.Bucket(bucketUsage).Get([]byte(owner))
	if raw == nil {
		return taskroute.Usage{}, nil
	}
	open, n := binary.Varint(raw)
	size, m := binary.Varint(raw[max(n, 0):])
	if n <= 0 || m <= 0 {
		return taskroute.Usage{}, fmt.Errorf("what an owner has is damaged: %x", raw)
	}
	return taskroute.Usage{Open: int(open), Bytes: size}, nil
}

// account adds to what an owner has.
func account(tx *bbolt.Tx, owner string, more taskroute.Usage) error {
	if owner == "" || more == (taskroute.Usage{}) {
		return nil
	}
	used, err := usageOf(tx, owner)
	if err != nil {
		return err
	}
	used.Open, used.Bytes = used.Open+more.Open, used.Bytes+more.Bytes
	if used == (taskroute.Usage{}) {
		return tx.Bucket(bucketUsage).Delete([]byte(owner))
	}
	return tx.Bucket(bucketUsage).Put([]byte(owner), binary.AppendVarint(binary.AppendVarint(nil, int64(used.Open)), used.Bytes))
}

// usage is what a stored document counts for; nil counts for nothing.
func (h *header) usage(size int64) (u taskroute.Usage) {
	if h == nil {
		return u
	}
	if h.Open {
		u.Open = 1
	}
	u.Bytes = size
	return u
}

// storedSize is how many bytes the parts of a document have.
func storedSize(tx *bbolt.Tx, id string) (n int64) {
	for p := range taskroute.NumParts {
		n += int64(len(tx.Bucket(bucketTasks).Get(partKey(id, p))))
	}
	return n
}

// Usage implements taskroute.Backend.
func (s *Store) Usage(ctx context.Context, owner string) (used taskroute.Usage, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		used, err = usageOf(tx, owner)
		return err
	})
	return used, err
}

// The lists that Owned goes through, as its cursor names them.
var ownedLists = []struct {
	name   string
	bucket []byte
}{{"open ", bucketOpen}, {"ended ", bucketEnded}}

// Owned implements taskroute.Backend. The cursor is the list that the page ended
// in, and its last id.
func (s *Store) Owned(ctx context.Context, owner, cursor string, limit int) (ids []string, next string, err error) {
	at, last, err := parseOwned(cursor)
	if err != nil {
		return nil, "", err
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		for _, list := range ownedLists[at:] {
			prefix := joinKey(owner, "")
			c := tx.Bucket(list.bucket).Cursor()
			for k, _ := c.Seek(joinKey(owner, last)); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
				name, id := cutKey(k)
				if name != owner || id == last { // the prefix of another, or the page before
					continue
				}
				if len(ids) == limit {
					next = cursor
					return nil
				}
				ids, cursor = append(ids, id), list.name+id
			}
			last = ""
		}
		return nil
	})
	return ids, next, err
}

func parseOwned(cursor string) (list int, last string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	for i, list := range ownedLists {
		if id, ok := strings.CutPrefix(cursor, list.name); ok && taskroute.ValidID(id) {
			return i, id, nil
		}
	}
	return 0, "", taskroute.ErrCursor
}
