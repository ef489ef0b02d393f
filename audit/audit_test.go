package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLineFormat(t *testing.T) {
	var out bytes.Buffer
	New(&out, nil).Record(Event{
		Time: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), Tenant: "acme", Subject: "ann\n{\"forged\":true}", Identity: "jwt", Peer: "127.0.0.1",
		Upstream: "reports", Method: "tasks/cancel", Task: TaskHash("ABC"), Outcome: Answered, Status: 200,
	})
	want := `{"time":"2026-11-29T12:00:00Z","tenant":"acme","subject":"ann\n{\"forged\":true}","identity":"jwt","peer":"127.0.0.1",` +
		`"upstream":"reports","method":"tasks/cancel","task":"b5d4045c3f466fa9","outcome":"answered","status":200}` + "\n"
	if out.String() != want {
		t.Errorf("got  %s\nwant %s", out.String(), want)
	}
}

func TestNoTaskNoHash(t *testing.T) {
	if got := TaskHash(""); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestReopenAfterRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := Open(path, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	log.Record(Event{Method: "one"})
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	log.Record(Event{Method: "two"})
	if err := log.Reopen(); err != nil {
		t.Fatal(err)
	}
	log.Record(Event{Method: "three"})
	if got := methods(t, path+".1"); got != "one two" {
		t.Errorf("the old file has %q", got)
	}
	if got := methods(t, path); got != "three" {
		t.Errorf("the new file has %q", got)
	}
}

func methods(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Method)
	}
	return strings.Join(out, " ")
}

func TestFailuresAreReported(t *testing.T) {
	var got error
	New(brokenDisk{}, func(err error) { got = err }).Record(Event{})
	if !errors.Is(got, errDisk) {
		t.Errorf("got %v", got)
	}
}

// TestAFloodOfStrangersIsCounted: whoever is known is always written down.
func TestAFloodOfStrangersIsCounted(t *testing.T) {
	var out bytes.Buffer
	log := New(&out, func(err error) { t.Error(err) })
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for range 1000 {
		log.Record(Event{Time: at, Outcome: Denied, Status: 401})
	}
	log.Record(Event{Time: at, Tenant: "acme", Subject: "ann", Outcome: Answered})
	for range 60 {
		log.Record(Event{Time: at.Add(5 * time.Second), Outcome: Denied, Status: 401})
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 100+1+1+50+1 {
		t.Fatalf("%d lines", len(lines))
	}
	const summary = `,"event":"strangers","outcome":"denied","omitted":`
	if got := lines[100]; got != `{"time":"2026-11-29T12:00:00Z"`+summary+`900}` || !strings.Contains(lines[101], "ann") {
		t.Errorf("got %s\n%s", got, lines[101])
	}
	if got := lines[152]; got != `{"time":"2026-11-29T12:00:05Z"`+summary+`10}` {
		t.Errorf("got %s", got)
	}
}

func TestNilLogDropsEvents(t *testing.T) {
	var l *Log
	l.Record(Event{})
	if err := errors.Join(l.Reopen(), l.Close()); err != nil {
		t.Error(err)
	}
}

var errDisk = errors.New("disk full")

type brokenDisk struct{}

func (brokenDisk) Write([]byte) (int, error) { return 0, errDisk }
