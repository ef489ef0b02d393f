package storetest

import (
	"context"
	"testing"
	"time"

	"taskgate/taskroute"
)

// listAll is how often each id is listed, in pages of limit.
func listAll(t *testing.T, b taskroute.Backend, limit int) map[string]int {
	t.Helper()
	listed := map[string]int{}
	for cursor, pages := "", 0; ; pages++ {
		ids, next, err := b.List(t.Context(), cursor, limit)
		if err != nil || pages > 10_000 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, id := range ids {
			listed[id]++
		}
		if next == "" {
			return listed
		}
		cursor = next
	}
}

// listPages: open or closed, and whatever its id begins with.
func listPages(t *testing.T, b taskroute.Backend) {
	want := map[string]bool{}
	for i := range 50 {
		d := newDoc("r1")
		if i%3 == 0 {
			d.ID = b.NewID()
		}
		if i%10 == 0 {
			d.ID = "reserved-" + d.ID
		}
		create(t, b, d)
		if i%2 == 0 {
			replace(t, b, 1, closed(d))
		}
		want[d.ID] = true
	}
	for _, limit := range []int{1, 7, 1000} {
		listed := listAll(t, b, limit)
		if len(listed) != len(want) {
			t.Errorf("in pages of %d: %d are listed, want %d", limit, len(listed), len(want))
		}
		for id := range want {
			if listed[id] == 0 {
				t.Errorf("in pages of %d: %s is not listed", limit, id)
			}
		}
	}
}

func endedContext(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	create(t, b, d)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, call := range map[string]func() error{
		"create":    func() error { return b.Create(ctx, newDoc("r1"), "n") },
		"get":       func() error { _, err := b.Get(ctx, d.ID); return err },
		"replace":   func() error { return b.Replace(ctx, 1, d, "n") },
		"orphans":   func() error { _, _, err := b.Orphans(ctx, "", 10); return err },
		"list":      func() error { _, _, err := b.List(ctx, "", 10); return err },
		"heartbeat": func() error { _, err := b.Heartbeat(ctx, "r1", time.Hour); return err },
		"retire":    func() error { return b.Retire(ctx, "r1") },
		"usage":     func() error { _, err := b.Usage(ctx, d.Owner); return err },
		"owned":     func() error { _, _, err := b.Owned(ctx, d.Owner, "", 10); return err },
		"collect":   func() error { _, err := b.Collect(ctx, time.Now()); return err },
		"ping":      func() error { return b.Ping(ctx) },
		"hints":     func() error { return b.Hints(ctx, func(string) {}) },
	} {
		wantErr(t, what, call(), context.Canceled)
	}
	wantRevision(t, get(t, b, d.ID), 1)
}

func hintsEnd(t *testing.T, b taskroute.Backend) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Hints(ctx, func(string) {}) }()
	create(t, b, newDoc("r1"))
	cancel()
	select {
	case err := <-done:
		wantErr(t, "hints", err, context.Canceled)
	case <-time.After(30 * time.Second):
		t.Fatal("hints go on 30 s after their context has ended")
	}
}
