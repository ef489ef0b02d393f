package boltstore_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
)

// change writes to a file that nobody has open.
func change(t *testing.T, path string, write func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(write), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// twoTasks makes a file with an open and an ended one of the same owner.
func twoTasks(t *testing.T) (path string, open, ended taskroute.Doc) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tasks.db")
	s, err := boltstore.Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	open, ended = doc("r1"), doc("r1")
	after := ended
	after.Open, after.Runnable, after.Holder = false, false, ""
	if err := errors.Join(s.Create(t.Context(), open, rand.Text()), s.Create(t.Context(), ended, rand.Text()),
		s.Replace(t.Context(), 1, after, rand.Text()), s.Close()); err != nil {
		t.Fatal(err)
	}
	return path, open, ended
}

// TestFileOfEarlierVersion has a file of the schema before, which does not tell
// what an owner has, brought up to date.
func TestFileOfEarlierVersion(t *testing.T) {
	path, d, ended := twoTasks(t)
	change(t, path, func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket([]byte("ended")), tx.DeleteBucket([]byte("usage")),
			tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("1")))
	})
	if _, err := boltstore.Check(t.Context(), path); err == nil || !strings.Contains(err.Error(), "earlier version") {
		t.Errorf("check says %v", err)
	}
	s := open(t, path)
	want := taskroute.Usage{Open: 1, Bytes: d.Size() + ended.Size()}
	if used, err := s.Usage(t.Context(), d.Owner); used != want || err != nil {
		t.Errorf("the owner has %+v (%v), want %+v", used, err, want)
	}
	ids, _, err := s.Owned(t.Context(), d.Owner, "", 10)
	if err != nil || !slices.Equal(ids, []string{d.ID, ended.ID}) {
		t.Errorf("listed are %q (%v), want %q and %q", ids, err, d.ID, ended.ID)
	}
}

// TestCheckFindsWrongBooks: what is noted of owners is compared with what they have.
func TestCheckFindsWrongBooks(t *testing.T) {
	for what, c := range map[string]struct {
		write func(*bbolt.Tx) error
		want  string
	}{
		"too much":      {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("usage")).Put([]byte("acme/ann"), []byte{2, 100}) }, "of an owner"},
		"damaged":       {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("usage")).Put([]byte("acme/ann"), []byte{255}) }, "damaged"},
		"of nobody":     {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("usage")).Put([]byte("acme/bob"), []byte{2, 2}) }, "of 2 owners"},
		"a missing end": {emptyEnded, "missing from index ended"},
	} {
		t.Run(what, func(t *testing.T) {
			path, _, _ := twoTasks(t)
			change(t, path, c.write)
			h, err := boltstore.Check(t.Context(), path)
			if err != nil || !strings.Contains(fmt.Sprint(h.Problems), c.want) {
				t.Errorf("problems are %v (%v), want %q", h.Problems, err, c.want)
			}
		})
	}
}

func emptyEnded(tx *bbolt.Tx) error {
	if err := tx.DeleteBucket([]byte("ended")); err != nil {
		return err
	}
	_, err := tx.CreateBucket([]byte("ended"))
	return err
}
