package redisstore_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskgate/internal/redistest"
	"taskgate/taskroute"
	"taskgate/taskroute/redisstore"
)

func wantUsage(t *testing.T, s *redisstore.Store, owner string, want taskroute.Usage) {
	t.Helper()
	if got, err := s.Usage(t.Context(), owner); got != want || err != nil {
		t.Fatalf("%s has %+v (%v), want %+v", owner, got, err, want)
	}
}

func ended(d taskroute.Doc) taskroute.Doc {
	d.Open, d.Runnable, d.Holder = false, false, ""
	return d
}

// TestRoundTrips counts what the operations of a task's life take.
func TestRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	meter := redistest.StartMeter(t, server)
	now := time.Now() // stands still, so that nobody looks how full the server is
	s := openWith(t, meter.URL(), redisstore.Options{Now: func() time.Time { return now }})
	d := doc("r1")
	d.Limit = taskroute.Usage{Open: 1000, Bytes: 1 << 30}
	create := func() error {
		d.ID = taskroute.NewID()
		return s.Create(t.Context(), d, rand.Text())
	}
	for range 2 { // what is done once in a while is done then
		if err := create(); err != nil {
			t.Fatal(err)
		}
	}
	changed := d
	changed.Parts = [taskroute.NumParts][]byte{taskroute.PartState: []byte("progress")}
	for _, step := range []struct {
		what            string
		trips, commands int
		call            func() error
	}{
		{"create", 1, 11, create},
		{"get", 1, 1, func() error { _, err := s.Get(t.Context(), d.ID, taskroute.PartState); return err }},
		{"progress", 1, 8, func() error { changed.ID = d.ID; return s.Replace(t.Context(), 1, changed, rand.Text()) }},
		{"end", 1, 12, func() error { return s.Replace(t.Context(), 2, ended(changed), rand.Text()) }},
	} {
		trips, ran := meter.Trips(), commands(t, server)
		if err := step.call(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got := meter.Trips() - trips; got != step.trips {
			t.Errorf("%s took %d round trips, want %d", step.what, got, step.trips)
		}
		if got := commands(t, server) - ran - 1; got > step.commands { // 1: to ask how many
			t.Errorf("%s took %d commands, want %d at most", step.what, got, step.commands)
		}
	}
}

// TestOwnedByEarlierVersion: an earlier version did not note what an owner has. Its
// documents are counted once they have ended under this one.
func TestOwnedByEarlierVersion(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL(), "earlier")
	old, d := doc("r1"), doc("r1")
	for _, d := range []taskroute.Doc{old, d} {
		if err := s.Create(t.Context(), d, rand.Text()); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"open", "ended", "bytes"} {
		server.CLI(t, "del", "earlier:own:{"+d.Owner+"}:"+key)
	}
	wantUsage(t, s, d.Owner, taskroute.Usage{})
	if err := s.Replace(t.Context(), 1, ended(old), rand.Text()); err != nil {
		t.Fatal(err)
	}
	wantUsage(t, s, d.Owner, taskroute.Usage{Bytes: old.Size()})
	if ids, _, err := s.Owned(t.Context(), d.Owner, "", 10); err != nil || !slices.Equal(ids, []string{old.ID}) {
		t.Fatalf("listed are %q, %v; want %q", ids, err, old.ID)
	}
	if got := server.CLI(t, "pexpiretime", "earlier:own:{"+d.Owner+"}:ended"); got == "-1" {
		t.Error("the list of what has ended stays for ever")
	}
}

// TestUsageHeals: what was noted wrongly, by a writer that died in a Cluster or
// by hand, is gone with the hour in which the documents expire.
func TestUsageHeals(t *testing.T) {
	server := redistest.Start(t)
	now := time.Now()
	s := openWith(t, server.URL(), redisstore.Options{Prefix: "heal", Now: func() time.Time { return now }})
	soon, late := doc("r1"), doc("r1")
	late.ExpiresAt, late.ForgetAt = now.Add(24*time.Hour), now.Add(24*time.Hour)
	for _, d := range []taskroute.Doc{soon, late} {
		if err := s.Create(t.Context(), d, rand.Text()); err != nil {
			t.Fatal(err)
		}
	}
	key := "heal:own:{" + late.Owner + "}:"
	for field := range strings.Lines(server.CLI(t, "hkeys", key+"bytes")) {
		server.CLI(t, "hincrby", key+"bytes", strings.TrimSpace(field), "5000")
	}
	server.CLI(t, "zadd", key+"open", fmt.Sprint(now.Add(time.Hour).UnixMilli()), taskroute.NewID()) // of a create that never came
	now = now.Add(3 * time.Hour)
	wantUsage(t, s, late.Owner, taskroute.Usage{Open: 1, Bytes: late.Size() + 5000})
	if got := server.CLI(t, "zcard", key+"open"); got != "1" {
		t.Errorf("%s entries are left of the open ones, want 1", got)
	}
	now = now.Add(24 * time.Hour)
	wantUsage(t, s, late.Owner, taskroute.Usage{})
}

// TestDropsALittleAtATime is an owner whose very many tasks have expired together.
func TestDropsALittleAtATime(t *testing.T) {
	server := redistest.Start(t)
	now := time.Now()
	s := openWith(t, server.URL(), redisstore.Options{Prefix: "drop", Now: func() time.Time { return now }})
	late := doc("r1")
	late.ExpiresAt, late.ForgetAt = now.Add(24*time.Hour), now.Add(24*time.Hour)
	if err := s.Create(t.Context(), late, rand.Text()); err != nil {
		t.Fatal(err)
	}
	const old = 2500
	args := []string{"zadd", "drop:own:{" + late.Owner + "}:open"}
	for range old {
		args = append(args, fmt.Sprint(now.Add(time.Minute).UnixMilli()), taskroute.NewID())
	}
	server.CLI(t, args...)
	wantUsage(t, s, late.Owner, taskroute.Usage{Open: old + 1, Bytes: late.Size()})
	now = now.Add(time.Hour)
	for _, left := range []string{"1501", "501", "1", "1"} {
		wantUsage(t, s, late.Owner, taskroute.Usage{Open: 1, Bytes: late.Size()})
		if got := server.CLI(t, "zcard", args[1]); got != left {
			t.Fatalf("%s entries are left, want %s", got, left)
		}
	}
	ids, _, err := s.Owned(t.Context(), late.Owner, "", 10)
	if err != nil || !slices.Equal(ids, []string{late.ID}) {
		t.Fatalf("listed are %q, %v", ids, err)
	}
}

// TestEntryWithoutDocument: a writer died between the entry and its document, as
// can be in a Cluster. The list leaves it out, and its time ends it.
func TestEntryWithoutDocument(t *testing.T) {
	cluster := redistest.StartCluster(t)
	s := open(t, cluster.URL(), "died")
	d := doc("r1")
	if err := s.Create(t.Context(), d, rand.Text()); err != nil {
		t.Fatal(err)
	}
	for _, master := range cluster.Masters {
		master.CLI(t, "-c", "del", "died:task:{"+d.ID+"}")
	}
	store, err := taskroute.NewStore(s, taskroute.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	tasks, next, err := store.Tasks(t.Context(), taskroute.Owner{Tenant: "acme", Subject: "ann"}, "", 10)
	if err != nil || len(tasks) > 0 || next != "" {
		t.Fatalf("%d tasks, next %q, error %v", len(tasks), next, err)
	}
	soon := doc("r1")
	soon.Owner, soon.ExpiresAt, soon.Limit.Open = "acme/bob", time.Now().Add(time.Second), 1
	soon.ForgetAt = soon.ExpiresAt
	if err := s.Create(t.Context(), soon, rand.Text()); err != nil {
		t.Fatal(err)
	}
	for _, master := range cluster.Masters {
		master.CLI(t, "-c", "del", "died:task:{"+soon.ID+"}")
	}
	await(t, "the entry counts no more", func() bool {
		again := soon
		again.ID = taskroute.NewID()
		err := s.Create(t.Context(), again, rand.Text())
		if err != nil && !errors.As(err, new(*taskroute.OverLimitError)) {
			t.Fatal(err)
		}
		return err == nil
	})
}
