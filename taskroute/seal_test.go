package taskroute_test

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"taskgate/internal/seal"
	"taskgate/taskroute"
	"taskgate/taskroute/memstore"
	"taskgate/wire"
)

const marker = "m4rker"

// ring has a key for each digit.
func ring(t *testing.T, digits string, refusePlain bool) *seal.Ring {
	t.Helper()
	var keys []seal.Key
	for _, d := range digits {
		k, err := seal.ParseKey(strings.Repeat(string(d), 2*seal.KeySize))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	return seal.NewRing(keys, refusePlain)
}

func sealedStore(t *testing.T, b taskroute.Backend, r *seal.Ring) *taskroute.Store {
	t.Helper()
	s, err := taskroute.NewStore(b, taskroute.Options{Now: time.Now, Tombstone: tombstone, Seal: r})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// marked makes a record with the marker in everything that clients and
// upstreams write.
func marked(t *testing.T, s *taskroute.Store, owner taskroute.Owner) string {
	t.Helper()
	text := wire.Raw(`{"text":"` + marker + `"}`)
	r := taskroute.NewRecord(taskroute.NewID(), owner, taskroute.Task, "r1", time.Now())
	r.State.TTL, r.State.Tool, r.State.StatusMessage, r.State.Resume = time.Hour, marker, marker, text
	r.Request = taskroute.Request{Params: text, ClientInfo: text, Capabilities: text, Decision: text, Headers: map[string][]string{"Mcp-Param-X": {marker}}}
	if _, err := r.Ask([]taskroute.Question{{Method: marker, Params: text, UpstreamID: marker}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func complete(t *testing.T, s *taskroute.Store, id string) {
	t.Helper()
	if _, err := s.UpdateAny(t.Context(), id, func(r *taskroute.Record) error {
		return r.Complete(wire.Raw(`{"text":"`+marker+`"}`), time.Now())
	}); err != nil {
		t.Fatal(err)
	}
}

func document(t *testing.T, b taskroute.Backend, id string) taskroute.Doc {
	t.Helper()
	d, err := b.Get(t.Context(), id, taskroute.PartState, taskroute.PartInput, taskroute.PartOutcome, taskroute.PartRequest)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNothingThatSomebodyWroteCanBeReadInADocument(t *testing.T) {
	b := memstore.New(time.Now)
	s := sealedStore(t, b, ring(t, "1", true))
	id := marked(t, s, ann)
	for _, step := range []func(){func() {}, func() { complete(t, s, id) }} {
		step()
		for p, part := range document(t, b, id).Parts {
			if bytes.Contains(part, []byte(marker)) || bytes.Contains(part, []byte("working")) {
				t.Errorf("part %d: %q", p, part)
			}
		}
	}
	if r, err := s.Get(t.Context(), by(ann), id); err != nil || !strings.Contains(string(r.Outcome.Result), marker) {
		t.Errorf("its owner gets %+v, %v", r, err)
	}
}

// TestForgedDocuments: whoever can write to the store can make a task
// unreadable, and nothing else.
func TestForgedDocuments(t *testing.T) {
	b := memstore.New(time.Now)
	s := sealedStore(t, b, ring(t, "1", true))
	theirs := marked(t, s, bob)
	mine := marked(t, s, ann)
	complete(t, s, theirs)
	complete(t, s, mine)
	foreign, own := document(t, b, theirs), document(t, b, mine)
	other := document(t, b, marked(t, sealedStore(t, b, ring(t, "2", true)), ann))
	for what, forge := range map[string]func(d *taskroute.Doc){
		"the state of another's":     func(d *taskroute.Doc) { d.Parts[taskroute.PartState] = foreign.Parts[taskroute.PartState] },
		"the outcome of another's":   func(d *taskroute.Doc) { d.Parts[taskroute.PartOutcome] = foreign.Parts[taskroute.PartOutcome] },
		"all of another's":           func(d *taskroute.Doc) { d.Parts = foreign.Parts },
		"another part of its own":    func(d *taskroute.Doc) { d.Parts[taskroute.PartInput] = own.Parts[taskroute.PartOutcome] },
		"a changed byte":             func(d *taskroute.Doc) { d.Parts[taskroute.PartOutcome][20] ^= 1 },
		"a plain outcome":            func(d *taskroute.Doc) { d.Parts[taskroute.PartOutcome] = []byte(`r{"text":"forged"}`) },
		"a plain state":              func(d *taskroute.Doc) { d.Parts[taskroute.PartState] = []byte(`{"status":"completed"}`) },
		"what an unknown key sealed": func(d *taskroute.Doc) { d.Parts = other.Parts },
		"rubbish":                    func(d *taskroute.Doc) { d.Parts[taskroute.PartState] = []byte{1} },
	} {
		t.Run(what, func(t *testing.T) {
			b := memstore.New(time.Now)
			forged := taskroute.Doc{ID: mine, Owner: ann.String()}
			for p := range own.Parts {
				forged.Parts[p] = bytes.Clone(own.Parts[p])
			}
			forge(&forged)
			if err := errors.Join(b.Create(t.Context(), forged, "n1"), b.Create(t.Context(), foreign, "n2")); err != nil {
				t.Fatal(err)
			}
			s := sealedStore(t, b, ring(t, "1", true))
			refuses(t, s, mine)
			if r, err := s.Get(t.Context(), by(bob), theirs); err != nil || r.State.Status != taskroute.Completed {
				t.Errorf("another's task: %+v, %v", r, err)
			}
			failed := ""
			done, err := sealedStore(t, b, ring(t, "31", true)).Rekey(t.Context(), func(id string, _ error) { failed = id })
			if want := (taskroute.Rekeyed{Records: 2, Rewritten: 1, Failed: 1}); err != nil || done != want || failed != mine {
				t.Errorf("rekey: %+v, %v, failed is %q", done, err, failed)
			}
		})
	}
}

func refuses(t *testing.T, s *taskroute.Store, id string) {
	t.Helper()
	if r, err := s.Get(t.Context(), by(ann), id); !errors.Is(err, taskroute.ErrUnreadable) {
		t.Errorf("get: %+v, %v", r, err)
	}
	if r, err := s.Load(t.Context(), id); !errors.Is(err, taskroute.ErrUnreadable) {
		t.Errorf("load: %+v, %v", r, err)
	}
}

func TestStrangersDoNotLearnOfAnUnreadableTask(t *testing.T) {
	b := memstore.New(time.Now)
	s := sealedStore(t, b, ring(t, "1", true))
	id := marked(t, s, ann)
	d := document(t, b, id)
	d.Parts[taskroute.PartInput] = []byte(`{}`)
	if err := b.Replace(t.Context(), d.Revision, d, "n"); err != nil {
		t.Fatal(err)
	}
	for owner, want := range map[taskroute.Owner]error{ann: taskroute.ErrUnreadable, bob: taskroute.ErrNotFound} {
		_, got := s.Get(t.Context(), by(owner), id)
		_, updated := s.Update(t.Context(), by(owner), id, func(*taskroute.Record) error { return nil })
		if !errors.Is(got, want) || !errors.Is(updated, want) {
			t.Errorf("%s: get %v, update %v; want %v", owner, got, updated, want)
		}
	}
}

// TestKeysAreIntroducedAndRotated: a store without encryption gets it, then
// another key, and in the end the last key alone reads everything.
func TestKeysAreIntroducedAndRotated(t *testing.T) {
	b := memstore.New(time.Now)
	ids := []string{marked(t, sealedStore(t, b, nil), ann)}
	for _, step := range []*seal.Ring{ring(t, "1", false), ring(t, "21", true)} {
		s := sealedStore(t, b, step)
		ids = append(ids, marked(t, s, ann))
		complete(t, s, ids[0])
		want := taskroute.Rekeyed{Records: len(ids), Rewritten: len(ids) - 1}
		for range 2 {
			done, err := s.Rekey(t.Context(), func(id string, err error) { t.Errorf("%s: %v", id, err) })
			if err != nil || done != want {
				t.Fatalf("got %+v, %v; want %+v", done, err, want)
			}
			want.Rewritten = 0
		}
		ids = append([]string{marked(t, s, ann)}, ids...)
	}
	last := sealedStore(t, b, ring(t, "2", true))
	for _, id := range ids {
		if r, err := last.Load(t.Context(), id); err != nil || !strings.Contains(string(r.Request.Params), marker) {
			t.Errorf("got %+v, %v", r, err)
		}
	}
}

// TestRekeyWhileRecordsChange: no change is lost, and none is undone.
func TestRekeyWhileRecordsChange(t *testing.T) {
	b := memstore.New(time.Now)
	old, rotated := sealedStore(t, b, ring(t, "12", true)), sealedStore(t, b, ring(t, "21", true))
	const records, changes = 10, 50
	var ids []string
	for range records {
		ids = append(ids, marked(t, old, ann))
	}
	var writers sync.WaitGroup
	for _, id := range ids {
		writers.Go(func() {
			for i := range changes {
				if _, err := old.UpdateAny(t.Context(), id, func(r *taskroute.Record) error { return r.Keep(wire.Raw(strconv.Itoa(i))) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { writers.Wait(); close(ended) }()
	for done := false; !done; {
		select {
		case <-ended:
			done = true // and once more, over what was written last
		default:
		}
		if _, err := rotated.Rekey(t.Context(), func(_ string, err error) { t.Error(err) }); err != nil {
			t.Fatal(err)
		}
	}
	last := sealedStore(t, b, ring(t, "2", true))
	for _, id := range ids {
		if r, err := last.Load(t.Context(), id); err != nil || string(r.State.Resume) != strconv.Itoa(changes-1) {
			t.Errorf("got %+v, %v", r, err)
		}
	}
}

func TestReservationsDoNotShowTheirKey(t *testing.T) {
	b := memstore.New(time.Now)
	old, rotated := sealedStore(t, b, ring(t, "1", true)), sealedStore(t, b, ring(t, "21", true))
	if _, err := old.Reserve(t.Context(), marker, "first", "", time.Hour); err != nil {
		t.Fatal(err)
	}
	if ids, _, err := b.List(t.Context(), "", 10); err != nil || len(ids) != 1 || strings.Contains(ids[0], marker) {
		t.Errorf("listed: %q, %v", ids, err)
	}
	if id, err := rotated.Reserved(t.Context(), marker); id != "first" || err != nil {
		t.Errorf("after a rotation: %q, %v", id, err)
	}
	if id, err := rotated.Reserved(t.Context(), marker+"2"); id != "" || err != nil {
		t.Errorf("another key: %q, %v", id, err)
	}
}

func TestNotesAreEncryptedAndRotated(t *testing.T) {
	b := memstore.New(time.Now)
	write := func(s *taskroute.Store) {
		if _, err := s.ChangeNote(t.Context(), "n", 0, func([]byte) ([]byte, error) { return []byte(marker), nil }); err != nil {
			t.Fatal(err)
		}
	}
	write(sealedStore(t, b, ring(t, "1", true)))
	for p, part := range document(t, b, "note-n").Parts {
		if bytes.Contains(part, []byte(marker)) {
			t.Errorf("part %d: %q", p, part)
		}
	}
	if text, err := sealedStore(t, b, ring(t, "2", true)).Note(t.Context(), "n"); !errors.Is(err, taskroute.ErrUnreadable) {
		t.Errorf("without its key: %q, %v", text, err)
	}
	done, err := sealedStore(t, b, ring(t, "21", true)).Rekey(t.Context(), func(id string, err error) { t.Errorf("%s: %v", id, err) })
	if want := (taskroute.Rekeyed{Records: 1, Rewritten: 1}); err != nil || done != want {
		t.Errorf("rekey: %+v, %v", done, err)
	}
	if text, err := sealedStore(t, b, ring(t, "2", true)).Note(t.Context(), "n"); string(text) != marker || err != nil {
		t.Errorf("after it: %q, %v", text, err)
	}
}
