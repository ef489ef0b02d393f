package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockWait is how long to wait for another process to let go of the file, as it
// does at a restart. Without a limit bbolt waits for ever.
const lockWait = time.Second

// The buckets of the file.
var (
	bucketMeta   = []byte("meta")   // "schema" -> schema
	bucketTasks  = []byte("tasks")  // id -> header; id + part number -> part
	bucketTombs  = []byte("tombs")  // id -> tomb
	bucketExpiry = []byte("expiry") // time + id -> nothing; of documents and tombs
	bucketHeld   = []byte("held")   // holder + 0 + id -> nothing; see header.held
	bucketOpen   = []byte("open")   // owner + 0 + id -> nothing
	bucketEnded  = []byte("ended")  // owner + 0 + id -> nothing, once it is not open
	bucketUsage  = []byte("usage")  // owner -> open documents and bytes, two varints
	buckets      = [][]byte{bucketMeta, bucketTasks, bucketTombs, bucketExpiry, bucketHeld, bucketOpen, bucketEnded, bucketUsage}
)

// fill is how full a page is left when a bucket grows beyond it. Most of what is
// new goes to the end of a bucket, so the page before is not added to again.
const fill = 0.9

var (
	schemaKey = []byte("schema")
	schema    = []byte("2")
	unowned   = []byte("1") // the schema before: nothing tells what an owner has
)

func openFile(path string) (*bbolt.DB, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoStatistics: true,
	})
	if err != nil {
		return nil, explain(path, err)
	}
	if err := errors.Join(db.Update(prepare), syncDir(dir)); err != nil {
		return nil, errors.Join(explain(path, err), db.Close())
	}
	return db, nil
}

// prepare makes the buckets of a new file, and refuses a file of another schema.
func prepare(tx *bbolt.Tx) error {
	for _, name := range buckets {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	switch found := meta.Get(schemaKey); {
	case found == nil:
		return meta.Put(schemaKey, schema)
	case bytes.Equal(found, unowned):
		return errors.Join(accountAll(tx), meta.Put(schemaKey, schema))
	case !bytes.Equal(found, schema):
		return fmt.Errorf("the file has schema %q, this program reads %q", found, schema)
	}
	return nil
}

// accountAll writes what each owner has.
func accountAll(tx *bbolt.Tx) error {
	c := tx.Bucket(bucketTasks).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if isPartKey(tx, k) {
			continue
		}
		id := string(k)
		h, err := readHeader(tx, id)
		if err != nil {
			continue // whoever asks for it is told; nobody knows whose it is
		}
		if key := h.endedKey(id); key != nil {
			if err := tx.Bucket(bucketEnded).Put(key, nil); err != nil {
				return err
			}
		}
		if err := account(tx, h.Owner, h.usage(storedSize(tx, id))); err != nil {
			return err
		}
	}
	return nil
}

// explain says what the operator can do about err.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%s is in use by another process; only one may open it (several replicas need Redis): %w", path, err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrChecksum):
		return fmt.Errorf("%s is not a task store, or is damaged: %w", path, err)
	case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist):
		return err // a PathError, which names the file
	}
	return fmt.Errorf("%s: %w", path, err)
}

// syncDir makes a new or renamed file in dir survive a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
