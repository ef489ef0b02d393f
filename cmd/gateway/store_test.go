package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		run  func(io.Writer, string) error
		want string
	}{
		{checkStore, "records: 1, of them open: 1, tombstones: 0, problems: 0\n"},
		{compactStore, "bytes before: "},
		{checkStore, "records: 1, "},
	} {
		var out bytes.Buffer
		if err := c.run(&out, path); err != nil || !strings.HasPrefix(out.String(), c.want) {
			t.Errorf("got %q, %v; want %q", out.String(), err, c.want)
		}
	}
}

func TestRekeyCommand(t *testing.T) {
	path, dir := storeWithATask(t), t.TempDir()
	yaml := "store: " + path + "\nupstreams: [{name: u, url: http://127.0.0.1:1/mcp}]\nencryption: {keys: [env:STORE_KEY]}\n"
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		key, want string
		err       error
	}{
		{"1", "tasks: 1, encrypted anew: 1, not readable: 0\n", nil},
		{"1", "tasks: 1, encrypted anew: 0, not readable: 0\n", nil},
		{"2", "tasks: 1, encrypted anew: 0, not readable: 1\n", errNotRekeyed},
	} {
		t.Setenv("STORE_KEY", strings.Repeat(step.key, 64))
		var out bytes.Buffer
		if err := rekeyStore(&out, filepath.Join(dir, "config.yaml")); !errors.Is(err, step.err) || out.String() != step.want {
			t.Errorf("key %s: got %q, %v; want %q, %v", step.key, out.String(), err, step.want, step.err)
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
