// Package storetest is the one suite that every taskroute.Backend passes. It
// proves the sentences of the Backend contract one by one.
package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"taskgate/taskroute"
)

// Open returns an empty backend and has t close it in the end.
type Open func(t *testing.T) taskroute.Backend

// Run proves the Backend contract, with a fresh backend for each sentence.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		sentence string
		prove    func(*testing.T, taskroute.Backend)
	}{
		{"create, then get", createThenGet},
		{"get returns the wanted parts only", getParts},
		{"get of an unknown document", getUnknown},
		{"revisions of many documents at once", revisions},
		{"what is passed in and returned is the caller's", copies},
		{"a large part", largePart},
		{"create over another document", createOver},
		{"create again after a lost reply", createAgain},
		{"replace writes the given parts at the next revision", replaceParts},
		{"replace over a revision that is not the stored one", replaceConflict},
		{"replace of an unknown document", replaceUnknown},
		{"replace again after a lost reply", replaceAgain},
		{"of parallel creates one succeeds", parallelCreate},
		{"of parallel replaces of one revision one succeeds", parallelReplace},
		{"no parallel update is lost", parallelCount},
		{"an expired document leaves a tombstone for a while", expires},
		{"an expired document without a tombstone is unknown", expiresWithoutTombstone},
		{"a later expiry replaces the earlier", expiryMoves},
		{"a document without expiry stays", staysForever},
		{"orphans are the documents of dead holders", orphansOfTheDead},
		{"a lease lapses and cannot be renewed", leaseLapses},
		{"a retired holder's documents are orphans at once", retire},
		{"only what is open and runnable is an orphan", orphansAreOpen},
		{"a claimed orphan is none any more", claimedOrphan},
		{"a released and reclaimed document still has its holder's fate", reclaimed},
		{"a runnable document without a holder waits for a lease", unheld},
		{"orphans come in pages", orphanPages},
		{"all documents are listed in pages", listPages},
		{"a heartbeat tells what others have changed", told},
		{"what an owner has is what is there", usageOf},
		{"what is written again counts once", usageAgain},
		{"of parallel changes of what an owner has none is lost", parallelUsage},
		{"an owner gets what it may have, and no more", limits},
		{"what has ended or expired makes room", roomAgain},
		{"an owner's documents come in pages", ownedPages},
		{"a cursor of no page is refused, and another's leads nowhere", badCursors},
		{"of parallel reservations of one key one holds", parallelReserve},
		{"a reservation can be displaced and goes with its time", reservationsGo},
		{"no parallel change of a note is lost", noteCounts},
		{"a note goes with its time", notesGo},
		{"a change of a note wakes its watchers", noteWakes},
		{"an ended context ends every call", endedContext},
		{"hints end with the context", hintsEnd},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			t.Parallel() // some wait for time to pass
			c.prove(t, open(t))
		})
	}
}

// newDoc is an open document of owner "acme/ann", run by holder.
func newDoc(holder string) taskroute.Doc {
	return taskroute.Doc{
		ID: taskroute.NewID(), Open: true, Runnable: true, Holder: holder, Owner: "acme/ann",
		Parts: [taskroute.NumParts][]byte{
			taskroute.PartState:   []byte(`{"status":"working"}`),
			taskroute.PartRequest: []byte("\x00binary\xff\r\n"),
		},
	}
}

// closed is the document after its call has ended.
func closed(d taskroute.Doc) taskroute.Doc {
	d.Open, d.Runnable, d.Holder = false, false, ""
	return d
}

func create(t *testing.T, b taskroute.Backend, d taskroute.Doc) {
	t.Helper()
	if err := b.Create(t.Context(), d, rand.Text()); err != nil {
		t.Fatalf("create: %v", err)
	}
}

func replace(t *testing.T, b taskroute.Backend, prev uint64, d taskroute.Doc) {
	t.Helper()
	if err := b.Replace(t.Context(), prev, d, rand.Text()); err != nil {
		t.Fatalf("replace revision %d: %v", prev, err)
	}
}

// get reads all parts.
func get(t *testing.T, b taskroute.Backend, id string) taskroute.Doc {
	t.Helper()
	d, err := b.Get(t.Context(), id, taskroute.PartState, taskroute.PartInput, taskroute.PartOutcome, taskroute.PartRequest)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return d
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: error is %v, want %v", what, got, want)
	}
}

func wantPart(t *testing.T, d taskroute.Doc, p taskroute.Part, want []byte) {
	t.Helper()
	if !bytes.Equal(d.Parts[p], want) || (d.Parts[p] == nil) != (want == nil) {
		t.Fatalf("part %d is %q, want %q", p, d.Parts[p], want)
	}
}

func wantRevision(t *testing.T, d taskroute.Doc, want uint64) {
	t.Helper()
	if d.Revision != want {
		t.Fatalf("revision is %d, want %d", d.Revision, want)
	}
}

// eventually polls until ok, which must come true well within a minute.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("still not so after 30 s: %s", what)
		case <-tick.C:
		}
	}
}
