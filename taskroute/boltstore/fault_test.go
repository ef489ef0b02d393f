package boltstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
)

// TestKill kills a writing process at random moments, again and again on the
// same file.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	all := acked{}
	for range 12 {
		cmd, lines, stderr := startChild(t, path)
		for n := mathrand.IntN(400); n >= 0 && lines.Scan(); n-- {
			all.line(t, lines.Text())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatalf("kill: %v; the child says: %s", err, stderr)
		}
		for lines.Scan() { // what it had said before it died
			all.line(t, lines.Text())
		}
		_ = cmd.Wait() // it says "killed"
		all.wantKept(t, path)
	}
	if len(all) < 100 {
		t.Fatalf("only %d documents were written", len(all))
	}
}

func TestDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	all := acked{}
	cmd, lines, stderr := startChild(t, path, envFileLimit+"=4194304")
	for lines.Scan() {
		all.line(t, lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("child: %v: %s", err, stderr)
	}
	if len(all) < 100 {
		t.Fatalf("only %d documents were written before the disk was full", len(all))
	}
	all.wantKept(t, path)

	s := open(t, path) // without the limit: space was freed
	if err := s.Create(t.Context(), doc("later"), rand.Text()); err != nil {
		t.Fatalf("create once there is space: %v", err)
	}
}

func doc(holder string) taskroute.Doc {
	return taskroute.Doc{
		ID: taskroute.NewID(), Open: true, Runnable: true, Holder: holder, Owner: "acme/ann",
		Parts: [taskroute.NumParts][]byte{taskroute.PartState: make([]byte, 1000)},
	}
}

func TestSecondProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	open(t, path)
	start := time.Now()
	_, err := boltstore.Open(path, time.Now)
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Fatalf("second open: %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Fatalf("second open took %v", took)
	}
	if _, err := boltstore.Check(t.Context(), path); err == nil {
		t.Fatal("check read a file that is in use")
	}
	if _, _, err := boltstore.Compact(path); err == nil {
		t.Fatal("compact rewrote a file that is in use")
	}
}

func TestOpenMakesPrivateFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "tasks.db")
	open(t, path)
	for name, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	later := filepath.Join(dir, "later.db")
	change(t, later, func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucket([]byte("meta"))
		if err != nil {
			return err
		}
		return meta.Put([]byte("schema"), []byte("999"))
	})
	for _, c := range []struct{ name, path, want string }{
		{"a directory", dir, dir},
		{"a file below a file", filepath.Join(text, "tasks.db"), text},
		{"another file", text, "not a task store"},
		{"another schema", later, `schema "999"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := boltstore.Open(c.path, time.Now)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

// TestRestart is contract 6 for a single process: what an earlier process held
// is an orphan at once, however long its lease was.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	first, err := boltstore.Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Heartbeat(t.Context(), "first", time.Hour); err != nil {
		t.Fatal(err)
	}
	d := doc("first")
	if err := first.Create(t.Context(), d, rand.Text()); err != nil {
		t.Fatal(err)
	}
	if ids, _, err := first.Orphans(t.Context(), "", 10); len(ids) != 0 || err != nil {
		t.Fatalf("orphans while the holder lives: %v, %v", ids, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := open(t, path)
	if _, err := second.Heartbeat(t.Context(), "second", time.Hour); err != nil {
		t.Fatal(err)
	}
	if ids, _, err := second.Orphans(t.Context(), "", 10); len(ids) != 1 || ids[0].ID != d.ID || err != nil {
		t.Fatalf("orphans after the restart: %v, %v", ids, err)
	}
}

func TestClosed(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	d := doc("r1")
	if err := s.Create(t.Context(), d, rand.Text()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), doc("r1"), rand.Text()); err == nil {
		t.Fatal("create after close succeeded")
	}
	if _, err := s.Get(t.Context(), d.ID); err == nil {
		t.Fatal("get after close succeeded")
	}
}

// TestOddOneOut has one change fail in the middle of a shared commit: the others
// must not notice.
func TestOddOneOut(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	const writers = 64
	errs := make(chan error, writers)
	for i := range writers {
		d := doc("r1")
		if i%8 == 0 {
			d.Owner = strings.Repeat("x", bbolt.MaxKeySize) // fails after the first writes
		}
		go func() {
			err := s.Create(context.Background(), d, rand.Text())
			if i%8 == 0 {
				if _, found := s.Get(context.Background(), d.ID); err == nil || !errors.Is(found, taskroute.ErrNotFound) {
					err = errors.New("the odd one was stored")
				} else {
					err = nil
				}
			}
			errs <- err
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	s, err := boltstore.Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	kept := doc("r1")
	if err := s.Create(t.Context(), kept, rand.Text()); err != nil {
		t.Fatal(err)
	}
	for range 600 {
		d := doc("r1")
		d.ExpiresAt, d.ForgetAt = time.Now(), time.Now().Add(time.Hour)
		if err := s.Create(t.Context(), d, rand.Text()); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Collect(t.Context(), time.Now().Add(time.Minute)); n != 600 || err != nil {
		t.Fatalf("collected %d documents (%v), want 600", n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, after, err := boltstore.Compact(path)
	if err != nil || after >= before {
		t.Fatalf("compact: from %d to %d bytes, error %v", before, after, err)
	}
	if h := wantHealthy(t, path); h.Tasks != 1 || h.Open != 1 || h.Tombstones != 600 {
		t.Fatalf("after compact: %+v", h)
	}
	if d, err := open(t, path).Get(t.Context(), kept.ID); err != nil || d.Revision != 1 {
		t.Fatalf("after compact: revision %d, error %v", d.Revision, err)
	}
}
