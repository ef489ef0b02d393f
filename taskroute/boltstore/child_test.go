package boltstore_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
)

// The test binary runs itself as a child where a fault hits a whole process.
const (
	envChild     = "BOLTSTORE_CHILD" // path of the store that the child writes to
	envFileLimit = "BOLTSTORE_LIMIT" // how large, in bytes, its file may become
)

func TestMain(m *testing.M) {
	if path := os.Getenv(envChild); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child writes until it is killed or the disk is full, and prints each
// acknowledged write as "id revision".
func child(path string) error {
	if limit, err := strconv.ParseUint(os.Getenv(envFileLimit), 10, 64); err == nil {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	s, err := boltstore.Open(path, time.Now)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const writers = 8
	failed := make(chan error, writers)
	for range writers {
		go func() { failed <- write(ctx, s) }()
	}
	for range writers {
		if err := <-failed; !errors.Is(err, taskroute.ErrFull) {
			return fmt.Errorf("a write failed otherwise than for want of space: %w", err)
		}
	}
	// Full is not broken: the store still reads, and closes.
	return errors.Join(s.Ping(ctx), s.Close())
}

func write(ctx context.Context, s *boltstore.Store) error {
	part := [taskroute.NumParts][]byte{taskroute.PartState: make([]byte, 1000)}
	for {
		d := taskroute.Doc{ID: taskroute.NewID(), Open: true, Runnable: true, Holder: "child", Owner: "a/b", Parts: part}
		if err := s.Create(ctx, d, rand.Text()); err != nil {
			return err
		}
		fmt.Printf("%s 1\n", d.ID)
		err := s.Replace(ctx, 1, d, rand.Text())
		if err == nil {
			fmt.Printf("%s 2\n", d.ID)
		}
	}
}

// startChild runs the child on path. What it acknowledges comes line by line.
func startChild(t *testing.T, path string, env ...string) (*exec.Cmd, *bufio.Scanner, *strings.Builder) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), append(env, envChild+"="+path)...)
	stderr := new(strings.Builder)
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(stdout), stderr
}

// acked collects the revision that was acknowledged last for each id.
type acked map[string]uint64

func (a acked) line(t *testing.T, line string) {
	t.Helper()
	id, rev, _ := strings.Cut(line, " ")
	n, err := strconv.ParseUint(rev, 10, 64)
	if err != nil {
		return // cut off by the kill
	}
	a[id] = max(a[id], n)
}

// wantKept opens the store again and looks for everything acknowledged.
func (a acked) wantKept(t *testing.T, path string) {
	t.Helper()
	wantHealthy(t, path)
	s, err := boltstore.Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for id, rev := range a {
		d, err := s.Get(t.Context(), id, taskroute.PartState)
		if err != nil || d.Revision < rev || len(d.Parts[taskroute.PartState]) != 1000 {
			t.Errorf("an acknowledged write is lost: revision %d of %d, error %v", d.Revision, rev, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
