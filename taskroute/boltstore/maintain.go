package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"taskgate/taskroute"
)

// Health is what Check found. Reservations and notes count as tasks
// that are not open.
type Health struct {
	Tasks, Open, Tombstones int
	// Problems are empty when all is well; at most maxProblems of them.
	Problems []error
}

const maxProblems = 100

func (h *Health) add(problem error) {
	if len(h.Problems) < maxProblems {
		h.Problems = append(h.Problems, problem)
	}
}

// Check reads the whole file at path, which no gateway may have open: its pages,
// its headers and its indexes. The error says that it could not be read at all.
func Check(ctx context.Context, path string) (Health, error) {
	db, err := openReadOnly(path)
	if err != nil {
		return Health{}, fmt.Errorf("check task store: %w", err)
	}
	var h Health
	err = db.View(func(tx *bbolt.Tx) error {
		for problem := range tx.Check() { // to its end: it runs in a goroutine of its own
			h.add(problem)
		}
		if len(h.Problems) > 0 {
			return nil // the rest would be guesswork
		}
		return h.checkTasks(ctx, tx)
	})
	return h, errors.Join(err, db.Close())
}

func openReadOnly(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0, &bbolt.Options{Timeout: lockWait, ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		return nil, explain(path, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		switch {
		case meta == nil:
			return fmt.Errorf("%s is not a task store", path)
		case bytes.Equal(meta.Get(schemaKey), unowned):
			return fmt.Errorf("%s was written by an earlier version; start a gateway on it once, or compact it, which brings it up to date", path)
		case !bytes.Equal(meta.Get(schemaKey), schema):
			return fmt.Errorf("%s is not a task store of schema %s", path, schema)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// checkTasks compares the headers with the indexes, both ways: by each header's
// entries, and by the number of entries; and with what is noted of the owners.
func (h *Health) checkTasks(ctx context.Context, tx *bbolt.Tx) error {
	want := expected{entries: map[string]int{}, used: map[string]taskroute.Usage{}}
	c := tx.Bucket(bucketTasks).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(k) > 0 && !isPartKey(tx, k) {
			h.checkTask(tx, string(k), want)
		}
	}
	h.Tombstones = count(tx, bucketTombs)
	want.entries[string(bucketExpiry)] += h.Tombstones
	for _, index := range indexes {
		if got, want := count(tx, index.bucket), want.entries[string(index.bucket)]; got != want {
			h.add(fmt.Errorf("index %s has %d entries, the tasks need %d", index.bucket, got, want))
		}
	}
	h.checkOwners(tx, want.used)
	return nil
}

// expected is what the headers say must be there.
type expected struct {
	entries map[string]int // by index
	used    map[string]taskroute.Usage
}

func (h *Health) checkTask(tx *bbolt.Tx, id string, want expected) {
	head, err := readHeader(tx, id)
	if err != nil {
		h.add(err)
		return
	}
	h.Tasks++
	if head.Open {
		h.Open++
	}
	for _, index := range indexes {
		key := index.key(head, id)
		if key == nil {
			continue
		}
		want.entries[string(index.bucket)]++
		// An entry has an empty value, which bbolt returns as not nil.
		if tx.Bucket(index.bucket).Get(key) == nil {
			h.add(fmt.Errorf("a task is missing from index %s", index.bucket))
		}
	}
	if head.Owner != "" {
		used, its := want.used[head.Owner], head.usage(storedSize(tx, id))
		want.used[head.Owner] = taskroute.Usage{Open: used.Open + its.Open, Bytes: used.Bytes + its.Bytes}
	}
}

func (h *Health) checkOwners(tx *bbolt.Tx, want map[string]taskroute.Usage) {
	for owner, need := range want {
		if got, err := usageOf(tx, owner); err != nil || got != need {
			h.add(fmt.Errorf("of an owner %+v is noted (error: %v), the tasks come to %+v", got, err, need))
		}
	}
	maps.DeleteFunc(want, func(_ string, u taskroute.Usage) bool { return u == taskroute.Usage{} })
	if got := count(tx, bucketUsage); got != len(want) {
		h.add(fmt.Errorf("something is noted of %d owners, the tasks have %d", got, len(want)))
	}
}

// isPartKey tells the key of a part: a header's key and one digit.
func isPartKey(tx *bbolt.Tx, key []byte) bool {
	id, digit := key[:len(key)-1], key[len(key)-1]
	isDigit := digit >= '0' && digit < '0'+byte(taskroute.NumParts)
	return isDigit && tx.Bucket(bucketTasks).Get(id) != nil
}

func count(tx *bbolt.Tx, bucket []byte) (n int) {
	c := tx.Bucket(bucket).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n++
	}
	return n
}

// compactStep is how many bytes of the copy go into one transaction.
const compactStep = 8 << 20

// Compact rewrites the file at path, which no gateway may have open, without the
// space that expired tasks have left: bbolt reuses that space, but a file never
// shrinks by itself. Sizes are in bytes. The old file stays as it is on an error.
func Compact(path string) (before, after int64, err error) {
	if before, err = size(path); err != nil { // else openFile would make one
		return 0, 0, fmt.Errorf("compact task store: %w", err)
	}
	src, err := openFile(path) // for writing, so that no gateway can start meanwhile
	if err != nil {
		return before, before, fmt.Errorf("compact task store: %w", err)
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	copied := path + ".compact"
	if err = copyInto(copied, src); err != nil {
		return before, before, errors.Join(fmt.Errorf("compact task store: %w", err), os.Remove(copied))
	}
	if err = os.Rename(copied, path); err != nil {
		return before, before, err
	}
	if err = syncDir(filepath.Dir(path)); err != nil {
		return before, before, err
	}
	after, err = size(path)
	return before, after, err
}

func copyInto(path string, src *bbolt.DB) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of an earlier try
		return err
	}
	dst, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait})
	if err != nil {
		return err
	}
	return errors.Join(bbolt.Compact(dst, src, compactStep), dst.Close())
}

func size(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
