package boltstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"taskgate/taskroute"
)

// tomb is what is left of an expired document.
type tomb struct {
	Owner    string    `json:"owner"`
	ForgetAt time.Time `json:"forgetAt"`
}

// collectStep bounds the work in one transaction: other writers wait for it.
const collectStep = 256

// Collect implements taskroute.Backend.
func (s *Store) Collect(ctx context.Context, now time.Time) (int, error) {
	total := 0
	for {
		var due, docs int
		err := s.commit.do(ctx, func(tx *bbolt.Tx) (err error) {
			due, docs, err = collect(tx, now)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("collect expired tasks: %w", err)
		}
		total += docs
		if due < collectStep {
			return total, nil
		}
	}
}

// collect handles up to collectStep due entries of the expiry index, of which
// docs were documents and the others tombs.
func collect(tx *bbolt.Tx, now time.Time) (due, docs int, err error) {
	var keys [][]byte
	end := timeKey(now.Add(time.Millisecond), "")
	c := tx.Bucket(bucketExpiry).Cursor()
	for k, _ := c.First(); k != nil && bytes.Compare(k, end) < 0 && len(keys) < collectStep; k, _ = c.Next() {
		keys = append(keys, slices.Clone(k)) // the cursor does not survive a write
	}
	for _, k := range keys {
		_, id := cutTimeKey(k)
		h, err := readHeader(tx, id)
		switch {
		case err != nil:
			return 0, 0, err
		case h != nil && bytes.Equal(h.expiryKey(id), k):
			docs++
			err = bury(tx, id, h, now)
		default:
			err = forget(tx, id, k)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return len(keys), docs, nil
}

// bury removes the document and leaves a tomb when there is time for one.
func bury(tx *bbolt.Tx, id string, h *header, now time.Time) error {
	tasks := tx.Bucket(bucketTasks)
	used := h.usage(storedSize(tx, id))
	if err := account(tx, h.Owner, taskroute.Usage{Open: -used.Open, Bytes: -used.Bytes}); err != nil {
		return err
	}
	for p := range taskroute.NumParts {
		if err := tasks.Delete(partKey(id, p)); err != nil {
			return err
		}
	}
	if err := tasks.Delete([]byte(id)); err != nil {
		return err
	}
	if err := reindex(tx, id, h, nil); err != nil {
		return err
	}
	if !h.ForgetAt.After(h.ExpiresAt) || !h.ForgetAt.After(now) {
		return nil
	}
	raw, err := json.Marshal(tomb{h.Owner, h.ForgetAt})
	if err != nil {
		return err
	}
	if err := tx.Bucket(bucketTombs).Put([]byte(id), raw); err != nil {
		return err
	}
	return tx.Bucket(bucketExpiry).Put(timeKey(h.ForgetAt, id), nil)
}

// forget removes a tomb and its index entry.
func forget(tx *bbolt.Tx, id string, key []byte) error {
	if err := tx.Bucket(bucketTombs).Delete([]byte(id)); err != nil {
		return err
	}
	return tx.Bucket(bucketExpiry).Delete(key)
}

// tombOwner returns "" when there is no tomb of that id.
func tombOwner(tx *bbolt.Tx, id string) (string, error) {
	raw := tx.Bucket(bucketTombs).Get([]byte(id))
	if raw == nil {
		return "", nil
	}
	var t tomb
	if err := json.Unmarshal(raw, &t); err != nil {
		return "", fmt.Errorf("tombstone is damaged: %w", err)
	}
	return t.Owner, nil
}
