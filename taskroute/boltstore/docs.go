package boltstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"taskgate/taskroute"
)

// header is a document without its parts.
type header struct {
	Revision  uint64    `json:"rev"`
	Nonces    []string  `json:"nonces"` // of the latest writes
	Written   time.Time `json:"written"`
	Open      bool      `json:"open,omitempty"`
	Runnable  bool      `json:"runnable,omitempty"`
	Holder    string    `json:"holder,omitempty"`
	Owner     string    `json:"owner"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	ForgetAt  time.Time `json:"forgetAt,omitzero"`
}

// isRefusal tells the errors that leave the transaction as it was.
func isRefusal(err error) bool {
	for _, refusal := range []error{
		taskroute.ErrNotFound, taskroute.ErrConflict, taskroute.ErrExists, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return errors.As(err, new(*taskroute.OverLimitError))
}

// NewID implements taskroute.Backend. What is written together then lies together:
// documents, and their entries in the indexes, of the same time.
func (s *Store) NewID() string { return taskroute.NewOrderedID(s.now()) }

// Create implements taskroute.Backend.
func (s *Store) Create(ctx context.Context, d taskroute.Doc, nonce string) error {
	err := s.commit.do(ctx, func(tx *bbolt.Tx) error {
		old, err := readHeader(tx, d.ID)
		if err != nil {
			return err
		}
		if old != nil {
			if slices.Contains(old.Nonces, nonce) {
				return nil
			}
			return taskroute.ErrExists
		}
		used, err := usageOf(tx, d.Owner)
		if err != nil {
			return err
		}
		if err := d.Within(used); err != nil {
			return err
		}
		return s.put(tx, d, nil, header{Revision: 1, Nonces: []string{nonce}})
	})
	if isDiskFull(err) {
		return fmt.Errorf("%w: %w", taskroute.ErrFull, err)
	}
	return err
}

// isDiskFull tells the errors after which nothing was written and reads go on:
// the disk, the user's quota or the process's limit for a file is used up.
func isDiskFull(err error) bool {
	if err == nil {
		return false
	}
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		// bbolt passes on only the text when the file cannot grow.
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) {
			return true
		}
	}
	return false
}

// Replace implements taskroute.Backend.
func (s *Store) Replace(ctx context.Context, prev uint64, d taskroute.Doc, nonce string) error {
	defer s.leases.Tell(d.Tell, d.ID) // whatever comes of it: an error may have been a success
	return s.commit.do(ctx, func(tx *bbolt.Tx) error {
		old, err := readHeader(tx, d.ID)
		switch {
		case err != nil:
			return err
		case old == nil:
			return taskroute.ErrNotFound
		case slices.Contains(old.Nonces, nonce):
			return nil
		case old.Revision != prev:
			return taskroute.ErrConflict
		}
		nonces := append(slices.Clone(old.Nonces), nonce)
		nonces = nonces[max(0, len(nonces)-taskroute.NonceMemory):]
		return s.put(tx, d, old, header{Revision: prev + 1, Nonces: nonces})
	})
}

// put writes d over old (nil: there is none), with h's revision and nonces.
func (s *Store) put(tx *bbolt.Tx, d taskroute.Doc, old *header, h header) error {
	h.Written = s.now()
	h.Open, h.Runnable, h.Holder, h.Owner = d.Open, d.Runnable, d.Holder, d.Owner
	h.ExpiresAt, h.ForgetAt = d.ExpiresAt, d.ForgetAt
	if err := reindex(tx, d.ID, old, &h); err != nil {
		return err
	}
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	tasks := tx.Bucket(bucketTasks)
	tasks.FillPercent = fill
	if err := tasks.Put([]byte(d.ID), raw); err != nil {
		return err
	}
	more := taskroute.Usage{Open: h.usage(0).Open - old.usage(0).Open}
	for p, part := range d.Parts {
		if part == nil {
			continue
		}
		key := partKey(d.ID, taskroute.Part(p))
		more.Bytes += int64(len(part))
		if old != nil {
			more.Bytes -= int64(len(tasks.Get(key)))
		}
		if err := tasks.Put(key, part); err != nil {
			return err
		}
	}
	return account(tx, h.Owner, more)
}

// Get implements taskroute.Backend.
func (s *Store) Get(ctx context.Context, id string, parts ...taskroute.Part) (d taskroute.Doc, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		h, err := readHeader(tx, id)
		if err != nil {
			return err
		}
		if h == nil {
			if d.Owner, err = tombOwner(tx, id); err != nil {
				return err
			}
			return taskroute.ErrNotFound
		}
		d.ID, d.Revision = id, h.Revision
		for _, p := range parts {
			d.Parts[p] = slices.Clone(tx.Bucket(bucketTasks).Get(partKey(id, p)))
		}
		return nil
	})
	return d, err
}

// Revisions implements taskroute.Backend.
func (s *Store) Revisions(ctx context.Context, ids []string) ([]uint64, error) {
	all := make([]uint64, len(ids))
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		for i, id := range ids {
			if h, err := readHeader(tx, id); err == nil && h != nil {
				all[i] = h.Revision
			}
		}
		return nil
	})
	return all, err
}

func partKey(id string, p taskroute.Part) []byte {
	return append([]byte(id), byte('0'+p))
}

// readHeader returns nil when there is no document of that id.
func readHeader(tx *bbolt.Tx, id string) (*header, error) {
	raw := tx.Bucket(bucketTasks).Get([]byte(id))
	if raw == nil {
		return nil, nil
	}
	h := new(header)
	if err := json.Unmarshal(raw, h); err != nil {
		return nil, fmt.Errorf("%w: its header: %w", taskroute.ErrUnreadable, err)
	}
	return h, nil
}
