package redisstore_test

import (
	"bytes"
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

// TestLargePartsHaveKeysOfTheirOwn goes with a document through changes of its parts:
// what is large is neither read nor written with what is not, and goes with it.
func TestLargePartsHaveKeysOfTheirOwn(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL(), "large")
	large, small := bytes.Repeat([]byte("0123456789\n"), 100_000), []byte("small")
	d := doc("r1")
	d.Parts[taskroute.PartRequest] = large
	if err := s.Create(t.Context(), d, rand.Text()); err != nil {
		t.Fatal(err)
	}
	record, part := "large:task:{"+d.ID+"}", "large:part:{"+d.ID+"}"
	want := d.Parts
	for i, step := range []struct {
		what    string
		parts   [taskroute.NumParts][]byte
		expires time.Duration
		apart   []string
	}{
		{"progress", [taskroute.NumParts][]byte{taskroute.PartState: small}, 0, []string{"r"}},
		{"a large question", [taskroute.NumParts][]byte{taskroute.PartInput: large}, 0, []string{"i", "r"}},
		{"a small one, and a later end", [taskroute.NumParts][]byte{taskroute.PartInput: small}, time.Hour, []string{"r"}},
		{"a large outcome, and an earlier end", [taskroute.NumParts][]byte{taskroute.PartOutcome: large}, -30 * time.Minute, []string{"o", "r"}},
		{"large ones anew", [taskroute.NumParts][]byte{taskroute.PartOutcome: large[1:], taskroute.PartRequest: large[2:]}, 0, []string{"o", "r"}},
		{"all small", [taskroute.NumParts][]byte{small, {}, small, small}, 0, nil},
	} {
		d.Parts, d.ExpiresAt = step.parts, d.ExpiresAt.Add(step.expires)
		if err := s.Replace(t.Context(), uint64(i+1), d, rand.Text()); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		for p, text := range step.parts {
			if text != nil {
				want[p] = text
			}
		}
		got, err := s.Get(t.Context(), d.ID, taskroute.PartRequest, taskroute.PartState, taskroute.PartOutcome, taskroute.PartInput)
		if err != nil || !slices.EqualFunc(got.Parts[:], want[:], bytes.Equal) {
			t.Fatalf("%s: parts are not what was written (%v)", step.what, err)
		}
		if n := number(t, server.CLI(t, "strlen", record)); n > 1000 {
			t.Errorf("%s: the record has %d bytes", step.what, n)
		}
		wantKeys(t, server, step.what, part, step.apart, d.ExpiresAt)
		sum := 0
		for _, text := range want {
			sum += len(text)
		}
		wantUsage(t, s, d.Owner, taskroute.Usage{Open: 1, Bytes: int64(sum)})
	}
}

// wantKeys wants those keys of parts, and that they end with the record.
func wantKeys(t *testing.T, server *redistest.Server, what, prefix string, want []string, expires time.Time) {
	t.Helper()
	keys := strings.Fields(server.CLI(t, "keys", prefix+"*"))
	slices.Sort(keys)
	for i, key := range keys {
		if got := server.CLI(t, "pexpiretime", key); got != fmt.Sprint(expires.UnixMilli()) {
			t.Errorf("%s: %s expires at %s, want %d", what, key, got, expires.UnixMilli())
		}
		keys[i] = strings.TrimPrefix(key, prefix)
	}
	if !slices.Equal(keys, want) {
		t.Errorf("%s: parts with keys of their own are %q, want %q", what, keys, want)
	}
}

// TestNotOurs is a key that holds what this version has not written, such as the hash of an
// earlier one: it is told, nothing is written over it, and nobody else is in its way.
func TestNotOurs(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL(), "other")
	if _, err := s.Heartbeat(t.Context(), "r1", time.Hour); err != nil {
		t.Fatal(err)
	}
	for what, plant := range map[string]string{
		"a hash":        "redis.call('HSET', KEYS[1], 'rev', '2', 'nonces', 'n', 'index', '11 1796004350125 r1')",
		"a short text":  "redis.call('SET', KEYS[1], '1 2 3')",
		"a long text":   "redis.call('SET', KEYS[1], ('1 2 3 '):rep(100))",
		"one cut short": "redis.call('SET', KEYS[1], old:sub(1, -2))",
		"one too long":  "redis.call('SET', KEYS[1], old .. ' ')",
	} {
		bad, good := doc("dead"), doc("dead")
		for _, d := range []taskroute.Doc{bad, good} {
			if err := s.Create(t.Context(), d, rand.Text()); err != nil {
				t.Fatal(err)
			}
		}
		key := "other:task:{" + bad.ID + "}"
		server.CLI(t, "eval", "local old = redis.call('GET', KEYS[1]) redis.call('DEL', KEYS[1]) "+plant, "1", key)
		dump := server.CLI(t, "dump", key)
		_, err := s.Get(t.Context(), bad.ID, taskroute.PartState)
		if !errors.Is(err, taskroute.ErrUnreadable) {
			t.Errorf("%s: get says %v", what, err)
		}
		if err := s.Replace(t.Context(), 1, bad, rand.Text()); err == nil {
			t.Errorf("%s: it was written over", what)
		}
		if err := s.Create(t.Context(), bad, rand.Text()); err == nil {
			t.Errorf("%s: it was created over", what)
		}
		if got := server.CLI(t, "dump", key); got != dump {
			t.Errorf("%s: it is not what it was", what)
		}
		if all, err := s.Revisions(t.Context(), []string{bad.ID, good.ID}); err != nil || all[1] != 1 {
			t.Errorf("%s: revisions are %v, %v", what, all, err)
		}
		if ids := sweep(t, s); !slices.Contains(ids, good.ID) || !slices.Contains(ids, bad.ID) {
			t.Errorf("%s: orphans are %q, want %q among them, and %q for who loads it to say how it is", what, ids, good.ID, bad.ID)
		}
	}
}

// TestOneInAFlight: what is wrong with one write is told to its writer alone.
func TestOneInAFlight(t *testing.T) {
	server := redistest.Start(t)
	s := openWith(t, server.URL(), redisstore.Options{Prefix: "one"})
	bad, good := doc("r1"), doc("r1")
	server.CLI(t, "hset", "one:task:{"+bad.ID+"}", "rev", "1")
	errs := make(chan error)
	for range 50 {
		go func() {
			d := good
			d.ID = taskroute.NewID()
			errs <- s.Create(t.Context(), d, rand.Text())
		}()
		go func() {
			err := s.Replace(t.Context(), 1, bad, rand.Text())
			if errors.Is(err, taskroute.ErrUnreadable) {
				err = nil
			}
			errs <- err
		}()
	}
	for range 100 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestIndexNotOurs: a document that cannot be found again, or counted, is not said to be there.
func TestIndexNotOurs(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL(), "index")
	d := doc("r1")
	for _, key := range []string{"{holders}:held:r1", "{holders}:leases", "own:{" + d.Owner + "}:open", "own:{" + d.Owner + "}:bytes"} {
		server.CLI(t, "set", "index:"+key, "text")
		if err := s.Create(t.Context(), doc("r1"), rand.Text()); err == nil {
			t.Errorf("a create says nothing of what is at %s", key)
		}
		server.CLI(t, "del", "index:"+key)
	}
	if err := s.Create(t.Context(), d, rand.Text()); err != nil {
		t.Error(err)
	}
}
