package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"go.etcd.io/bbolt"

	"taskgate/taskroute"
)

// indexes are the buckets of keys that lead to a document; a nil key is none.
var indexes = []struct {
	bucket []byte
	key    func(h *header, id string) []byte
}{
	{bucketHeld, (*header).heldKey}, {bucketOpen, (*header).openKey}, {bucketEnded, (*header).endedKey}, {bucketExpiry, (*header).expiryKey},
}

// reindex moves the index entries of a document from what old needs to what h
// needs; either may be nil.
func reindex(tx *bbolt.Tx, id string, old, h *header) error {
	for _, index := range indexes {
		before, after := index.key(old, id), index.key(h, id)
		if bytes.Equal(before, after) {
			continue
		}
		b := tx.Bucket(index.bucket)
		b.FillPercent = fill
		if before != nil {
			if err := b.Delete(before); err != nil {
				return err
			}
		}
		if after != nil {
			if err := b.Put(after, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// heldKey indexes what needs, or may need, somebody to run it.
func (h *header) heldKey(id string) []byte {
	if h == nil || !h.Open || (h.Holder == "" && !h.Runnable) {
		return nil
	}
	return joinKey(h.Holder, id)
}

func (h *header) openKey(id string) []byte {
	if h == nil || !h.Open {
		return nil
	}
	return joinKey(h.Owner, id)
}

func (h *header) endedKey(id string) []byte {
	if h == nil || h.Open || h.Owner == "" {
		return nil
	}
	return joinKey(h.Owner, id)
}

func (h *header) expiryKey(id string) []byte {
	if h == nil || h.ExpiresAt.IsZero() {
		return nil
	}
	return timeKey(h.ExpiresAt, id)
}

func joinKey(name, id string) []byte { return append(append([]byte(name), 0), id...) }

// cutKey is the way back: an id has no zero byte.
func cutKey(key []byte) (name, id string) {
	i := bytes.LastIndexByte(key, 0)
	return string(key[:i]), string(key[i+1:])
}

const timeLength = 8

// timeKey sorts by time, to the millisecond.
func timeKey(at time.Time, id string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli())), id...)
}

func cutTimeKey(key []byte) (at time.Time, id string) {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(key))), string(key[timeLength:])
}

// maxScan bounds the index entries that one page of Orphans looks at: very many
// may have a holder or not have waited long enough.
const maxScan = 10_000

// Orphans implements taskroute.Backend. The cursor is the last index key that
// was looked at.
func (s *Store) Orphans(ctx context.Context, cursor string, limit int) (orphans []taskroute.Orphan, next string, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketHeld).Cursor()
		k, _ := c.Seek([]byte(cursor))
		if k != nil && string(k) == cursor {
			k, _ = c.Next()
		}
		now := s.now()
		for scanned := 0; k != nil && scanned < maxScan && len(orphans) < limit; scanned++ {
			holder, id := cutKey(k)
			if holder != "" && !s.leases.Orphaned(holder, true, now, now) {
				k, _ = c.Seek([]byte(holder + "\x01")) // past all that it holds
				continue
			}
			if holder != "" || s.waits(tx, id, now) {
				orphans = append(orphans, taskroute.Orphan{ID: id, Holder: holder})
			}
			next = string(k)
			k, _ = c.Next()
		}
		if k == nil {
			next = ""
		}
		return nil
	})
	return orphans, next, err
}

// waits tells whether a document without a holder has waited for a lease.
func (s *Store) waits(tx *bbolt.Tx, id string, now time.Time) bool {
	h, err := readHeader(tx, id)
	// A damaged one is an orphan too: who loads it will say what is wrong.
	return err != nil || h != nil && s.leases.Orphaned("", h.Runnable, h.Written, now)
}

// List implements taskroute.Backend. The cursor is the last id of the page.
func (s *Store) List(ctx context.Context, cursor string, limit int) (ids []string, next string, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketTasks).Cursor()
		for k, _ := c.Seek([]byte(cursor)); k != nil; k, _ = c.Next() {
			if string(k) == cursor || isPartKey(tx, k) {
				continue
			}
			if len(ids) == limit {
				next = ids[limit-1]
				return nil
			}
			ids = append(ids, string(k))
		}
		return nil
	})
	return ids, next, err
}
