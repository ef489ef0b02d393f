package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
)

// storeWithATask is the path of a closed store.
func storeWithATask(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tasks.db")
	b, err := boltstore.Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s, err := taskroute.NewStore(b, taskroute.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	rec := taskroute.NewRecord(taskroute.NewID(), taskroute.Owner{Subject: "ann"}, taskroute.Task, "r1", time.Now())
	if err := errors.Join(s.Create(t.Context(), rec), b.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStoreCommands(t *testing.T) {
	path := storeWithATask(t)
	for _, c := range []struct {
		run  func(*kong.Kong) error
		want string
	}{
		{(&storeCheckCmd{Path: path}).Run, "records: 1, of them open: 1, tombstones: 0, problems: 0\n"},
		{(&storeCompactCmd{Path: path}).Run, "bytes before: "},
		{(&storeCheckCmd{Path: path}).Run, "records: 1, "},
	} {
		var out bytes.Buffer
		if err := c.run(&kong.Kong{Stdout: &out}); err != nil || !strings.HasPrefix(out.String(), c.want) {
			t.Errorf("got %q, %v; want %q", out.String(), err, c.want)
		}
	}
}

func TestDamagedStoreFails(t *testing.T) {
	var out bytes.Buffer
	err := report(&out, boltstore.Health{Tasks: 2, Problems: []error{errors.New("page 7 is gone")}})
	if !errors.Is(err, errDamaged) || out.String() != "records: 2, of them open: 0, tombstones: 0, problems: 1\npage 7 is gone\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}
