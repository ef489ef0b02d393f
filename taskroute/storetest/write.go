package storetest

import (
	"bytes"
	"crypto/rand"
	"slices"
	"testing"

	"taskgate/taskroute"
)

func createThenGet(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	create(t, b, d)
	got := get(t, b, d.ID)
	if got.ID != d.ID {
		t.Fatalf("id is %q, want %q", got.ID, d.ID)
	}
	wantRevision(t, got, 1)
	for p := range taskroute.NumParts {
		wantPart(t, got, p, d.Parts[p])
	}
	if err := b.Ping(t.Context()); err != nil {
		t.Fatalf("ping: %v", err)
	}
}

func getParts(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	create(t, b, d)
	got, err := b.Get(t.Context(), d.ID, taskroute.PartState, taskroute.PartOutcome)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	wantPart(t, got, taskroute.PartState, d.Parts[taskroute.PartState])
	wantPart(t, got, taskroute.PartOutcome, nil)
	wantPart(t, got, taskroute.PartRequest, nil)
	if got, err = b.Get(t.Context(), d.ID); err != nil {
		t.Fatalf("get of no part: %v", err)
	}
	wantRevision(t, got, 1)
}

func getUnknown(t *testing.T, b taskroute.Backend) {
	d, err := b.Get(t.Context(), taskroute.NewID(), taskroute.PartState)
	wantErr(t, "get", err, taskroute.ErrNotFound)
	if d.Owner != "" {
		t.Fatalf("owner of an unknown document is %q", d.Owner)
	}
}

func revisions(t *testing.T, b taskroute.Backend) {
	first, second := newDoc("r1"), newDoc("r1")
	create(t, b, first)
	create(t, b, second)
	replace(t, b, 1, second)
	for want, ids := range map[[3]uint64][]string{
		{1, 0, 2}: {first.ID, taskroute.NewID(), second.ID}, {2, 2, 1}: {second.ID, second.ID, first.ID},
	} {
		if got, err := b.Revisions(t.Context(), ids); err != nil || !slices.Equal(got, want[:]) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
	if got, err := b.Revisions(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("of none: %v, %v", got, err)
	}
}

func copies(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	d.Parts[taskroute.PartState] = []byte("before")
	create(t, b, d)
	copy(d.Parts[taskroute.PartState], "broken")
	got := get(t, b, d.ID)
	wantPart(t, got, taskroute.PartState, []byte("before"))
	copy(got.Parts[taskroute.PartState], "broken")
	wantPart(t, get(t, b, d.ID), taskroute.PartState, []byte("before"))
}

func largePart(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	create(t, b, d)
	result := bytes.Repeat([]byte("0123456789abcde\n"), 256<<10) // 4 MiB
	d.Parts = [taskroute.NumParts][]byte{taskroute.PartOutcome: result}
	replace(t, b, 1, closed(d))
	wantPart(t, get(t, b, d.ID), taskroute.PartOutcome, result)
}

func createOver(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	create(t, b, d)
	other := d
	other.Parts = [taskroute.NumParts][]byte{taskroute.PartState: []byte("other")}
	wantErr(t, "create", b.Create(t.Context(), other, rand.Text()), taskroute.ErrExists)
	wantPart(t, get(t, b, d.ID), taskroute.PartState, d.Parts[taskroute.PartState])
}

func createAgain(t *testing.T, b taskroute.Backend) {
	d, nonce := newDoc("r1"), rand.Text()
	for range 2 {
		if err := b.Create(t.Context(), d, nonce); err != nil {
			t.Fatalf("create: %v", err)
		}
	}
	wantRevision(t, get(t, b, d.ID), 1)

	changed := d
	changed.Parts = [taskroute.NumParts][]byte{taskroute.PartState: []byte("changed")}
	replace(t, b, 1, changed)
	if err := b.Create(t.Context(), d, nonce); err != nil {
		t.Fatalf("create after a replace: %v", err)
	}
	got := get(t, b, d.ID)
	wantRevision(t, got, 2)
	wantPart(t, got, taskroute.PartState, []byte("changed"))
}

func replaceParts(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	create(t, b, d)
	change := closed(d)
	change.Parts = [taskroute.NumParts][]byte{
		taskroute.PartInput: {}, taskroute.PartOutcome: []byte("result"),
	}
	replace(t, b, 1, change)
	got := get(t, b, d.ID)
	wantRevision(t, got, 2)
	wantPart(t, got, taskroute.PartState, d.Parts[taskroute.PartState])
	wantPart(t, got, taskroute.PartInput, []byte{})
	wantPart(t, got, taskroute.PartOutcome, []byte("result"))
	wantPart(t, got, taskroute.PartRequest, d.Parts[taskroute.PartRequest])
}

func replaceConflict(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	create(t, b, d)
	replace(t, b, 1, d)
	for _, prev := range []uint64{0, 1, 3} {
		change := d
		change.Parts[taskroute.PartState] = []byte("lost")
		wantErr(t, "replace", b.Replace(t.Context(), prev, change, rand.Text()), taskroute.ErrConflict)
	}
	got := get(t, b, d.ID)
	wantRevision(t, got, 2)
	wantPart(t, got, taskroute.PartState, d.Parts[taskroute.PartState])
}

func replaceUnknown(t *testing.T, b taskroute.Backend) {
	d := newDoc("r1")
	wantErr(t, "replace", b.Replace(t.Context(), 1, d, rand.Text()), taskroute.ErrNotFound)
	_, err := b.Get(t.Context(), d.ID)
	wantErr(t, "get", err, taskroute.ErrNotFound)
}

// replaceAgain is the writer whose reply was lost: at once, and after others
// have written over it.
func replaceAgain(t *testing.T, b taskroute.Backend) {
	d, nonce := newDoc("r1"), rand.Text()
	create(t, b, d)
	mine := d
	mine.Parts = [taskroute.NumParts][]byte{taskroute.PartState: []byte("mine")}
	for range 2 {
		if err := b.Replace(t.Context(), 1, mine, nonce); err != nil {
			t.Fatalf("replace: %v", err)
		}
	}
	wantRevision(t, get(t, b, d.ID), 2)

	theirs := d
	theirs.Parts = [taskroute.NumParts][]byte{taskroute.PartState: []byte("theirs")}
	for i := range uint64(taskroute.NonceMemory - 1) {
		replace(t, b, 2+i, theirs)
	}
	if err := b.Replace(t.Context(), 1, mine, nonce); err != nil {
		t.Fatalf("replace after others: %v", err)
	}
	got := get(t, b, d.ID)
	wantRevision(t, got, taskroute.NonceMemory+1)
	wantPart(t, got, taskroute.PartState, []byte("theirs"))
}
