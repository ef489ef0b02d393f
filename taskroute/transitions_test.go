package taskroute

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"taskgate/wire"
)

var (
	t0  = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	t1  = t0.Add(time.Second)
	ann = Owner{Tenant: "acme", Subject: "ann"}
)

// started is a record in its first status; the others begin with it.
func started() *Record {
	r := NewRecord(NewID(), ann, Task, "r1", t0)
	r.State.TTL = time.Hour
	return r
}

// begin returns a stored record in the given situation.
func begin(t *testing.T, situation string) *Record {
	t.Helper()
	r := started()
	var err error
	switch situation {
	case "working":
	case "input_required":
		_, err = r.Ask([]Question{{Method: "elicitation/create"}, {Method: "roots/list"}}, t0)
	case "parked":
		err = r.Park([]Question{{Method: "elicitation/create", UpstreamKey: "k"}}, nil, t0)
	case "answered": // and with nobody to go on yet
		err = r.Park(nil, nil, t0)
	case "completed":
		err = r.Complete(wire.Raw(`{}`), t0)
	case "failed":
		err = r.Fail(wire.Raw(`{"code":1}`), "no", t0)
	case "cancelled":
		err = r.Cancel("stop", t0)
	default:
		t.Fatalf("no situation %q", situation)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.dirty = 0
	return r
}

// answers are for the question that begin asks first.
var answers = wire.Object{}.With("q1", wire.Raw(`{"action":"accept"}`))

// transitions are all of them, with arguments that have something to change.
var transitions = []struct {
	name string
	do   func(*Record) error
	// to are the statuses that it leads to; what is not named stays as it is.
	to map[string]Status
}{
	{"Complete", func(r *Record) error { return r.Complete(wire.Raw(`{"n":1}`), t1) }, toAll(Completed)},
	{"Fail", func(r *Record) error { return r.Fail(wire.Raw(`{"code":2}`), "late", t1) }, toAll(Failed)},
	{"Cancel", func(r *Record) error { return r.Cancel("late", t1) }, toAll(Cancelled)},
	{"RequestCancel", func(r *Record) error { return r.RequestCancel(t1) },
		map[string]Status{"parked": Cancelled, "answered": Cancelled}},
	{"Progress", func(r *Record) error { return r.Progress("half", t1) }, nil},
	{"Keep", func(r *Record) error { return r.Keep(wire.Raw(`{"at":1}`)) }, nil},
	{"Ask", func(r *Record) error { _, err := r.Ask([]Question{{Method: "ping"}}, t1); return err },
		map[string]Status{"working": InputRequired, "answered": InputRequired}},
	{"Park", func(r *Record) error { return r.Park([]Question{{Method: "ping"}}, nil, t1) },
		map[string]Status{"working": InputRequired, "answered": InputRequired}},
	{"Answer", func(r *Record) error { _, err := r.Answer(answers, t1); return err }, map[string]Status{"parked": Working}},
	{"Withdraw", func(r *Record) error { return r.Withdraw("q1", t1) }, map[string]Status{"parked": Working}},
	{"Claim", func(r *Record) error { return r.Claim("r2", t1) }, nil},
	{"Reclaim", func(r *Record) error { return r.Reclaim("r2", t1) }, nil},
	{"Restart", func(r *Record) error { return r.Restart("r2", t1) },
		map[string]Status{"input_required": Working, "parked": Working}},
	{"Promote", func(r *Record) error { return r.Promote(t1) }, nil},
}

// A token is good for the call that is running, and for no other.
func TestTokensEndWithTheirCall(t *testing.T) {
	for _, tr := range transitions {
		t.Run(tr.name, func(t *testing.T) {
			r := begin(t, "working")
			if err := r.Keep(wire.Raw(`{"at":0}`)); err != nil {
				t.Fatal(err)
			}
			updated := r.State.UpdatedAt
			if err := r.Keep(nil); err != nil || string(r.State.Resume) != `{"at":0}` || r.State.UpdatedAt != updated {
				t.Fatalf("a token that does not change: %s, %v", r.State.Resume, err)
			}
			if err := tr.do(r); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"Complete": "", "Fail": "", "Cancel": "", "Park": "", "Restart": "", "Keep": `{"at":1}`}
			kept, ok := want[tr.name]
			if !ok {
				kept = `{"at":0}`
			}
			if string(r.State.Resume) != kept {
				t.Errorf("token: %s, want %s", r.State.Resume, kept)
			}
		})
	}
}

var openSituations = []string{"working", "input_required", "parked", "answered"}

func toAll(s Status) map[string]Status {
	to := map[string]Status{}
	for _, from := range openSituations {
		to[from] = s
	}
	return to
}

func TestTransitionsOfOpenRecords(t *testing.T) {
	for _, tr := range transitions {
		for _, from := range openSituations {
			t.Run(tr.name+" from "+from, func(t *testing.T) {
				r := begin(t, from)
				want := r.State.Status
				if to, ok := tr.to[from]; ok {
					want = to
				}
				if err := tr.do(r); err != nil {
					t.Fatal(err)
				}
				if r.State.Status != want {
					t.Fatalf("status is %s, want %s", r.State.Status, want)
				}
				wantSound(t, r)
			})
		}
	}
}

// wantSound checks what holds for every record at all times.
func wantSound(t *testing.T, r *Record) {
	t.Helper()
	s := r.State
	if s.UpdatedAt.Before(s.CreatedAt) {
		t.Errorf("updated %v before it was created %v", s.UpdatedAt, s.CreatedAt)
	}
	if s.Status.Terminal() && (s.Holder != "" || len(r.Input.Questions) > 0) {
		t.Errorf("a terminal record has holder %q and %d questions", s.Holder, len(r.Input.Questions))
	}
	if pending := len(r.PendingInputs()) > 0; pending != (s.Status == InputRequired) {
		t.Errorf("status %s with %d pending questions", s.Status, len(r.PendingInputs()))
	}
	if has := r.Outcome.Result != nil; has != (s.Status == Completed) {
		t.Errorf("status %s, has a result: %v", s.Status, has)
	}
	if has := r.Outcome.Error != nil; has != (s.Status == Failed) {
		t.Errorf("status %s, has an error: %v", s.Status, has)
	}
	seen := map[string]bool{}
	for _, q := range r.Input.Questions {
		if seen[q.Key] {
			t.Errorf("two questions have key %q", q.Key)
		}
		seen[q.Key] = true
	}
}

// TestTerminalIsFinal is contract 5, for every transition.
func TestTerminalIsFinal(t *testing.T) {
	for _, tr := range transitions {
		for _, from := range []string{"completed", "failed", "cancelled"} {
			t.Run(tr.name+" from "+from, func(t *testing.T) {
				r := begin(t, from)
				before := *r
				if err := tr.do(r); !errors.Is(err, ErrTerminal) {
					t.Fatalf("error is %v, want %v", err, ErrTerminal)
				}
				if !reflect.DeepEqual(*r, before) {
					t.Fatalf("the record is %+v, was %+v", *r, before)
				}
			})
		}
	}
}

func TestTouchNeverGoesBackwards(t *testing.T) {
	r := begin(t, "working")
	for _, step := range []struct{ now, want time.Time }{
		{t1, t1}, {t0, t1}, {t0.Add(-time.Hour), t1}, {t1.Add(time.Nanosecond), t1}, {t1.Add(time.Millisecond), t1.Add(time.Millisecond)},
	} {
		if err := r.Progress(step.now.String(), step.now); err != nil {
			t.Fatal(err)
		}
		if !r.State.UpdatedAt.Equal(step.want) {
			t.Fatalf("updated at %v, want %v", r.State.UpdatedAt, step.want)
		}
	}
}

func TestChangesThatChangeNothingAreNotWritten(t *testing.T) {
	for name, do := range map[string]func(*Record) error{
		"the same progress":      func(r *Record) error { return r.Progress("", t1) },
		"an unknown answer":      func(r *Record) error { _, err := r.Answer(wire.Object{}.With("x", wire.Raw("1")), t1); return err },
		"an unknown withdrawal":  func(r *Record) error { return r.Withdraw("x", t1) },
		"a promotion of a task":  func(r *Record) error { return r.Promote(t1) },
		"a delivery":             func(r *Record) error { r.Delivered("q1"); return nil },
		"a ticket that is wrong": func(r *Record) error { r.Redeem("x"); return nil },
	} {
		r := begin(t, "input_required")
		if err := do(r); err != nil || r.dirty != 0 {
			t.Errorf("%s: parts %04b are to be written, error %v", name, r.dirty, err)
		}
	}
}

func TestKeysAreUniqueOverAllRounds(t *testing.T) {
	r := started()
	seen := map[string]bool{}
	for round := range 50 {
		keys, err := r.Ask(make([]Question, 1+round%3), t0)
		if err != nil {
			t.Fatal(err)
		}
		var answers wire.Object
		for _, key := range keys {
			if seen[key] {
				t.Fatalf("round %d uses key %q again", round, key)
			}
			seen[key] = true
			answers = answers.With(key, wire.Raw("1"))
		}
		if _, err := r.Answer(answers, t0); err != nil {
			t.Fatal(err)
		}
		switch round % 4 {
		case 1:
			r.Delivered(keys[0])
		case 2:
			err = r.Park(nil, new(string), t0)
		case 3:
			err = r.Restart("r2", t0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestPartialAnswersKeepTheRestPending(t *testing.T) {
	r := begin(t, "input_required")
	for i, step := range []struct {
		key    string
		taken  bool
		status Status
	}{
		{"q1", true, InputRequired}, {"q1", false, InputRequired}, {"q9", false, InputRequired}, {"q2", true, Working}, {"q2", false, Working},
	} {
		answer := wire.Raw(fmt.Sprint(i))
		taken, err := r.Answer(wire.Object{}.With(step.key, answer), t1)
		if err != nil || taken != step.taken || r.State.Status != step.status {
			t.Fatalf("answer %d: taken %v, status %s, error %v", i, taken, r.State.Status, err)
		}
	}
	if a, b := string(r.Input.Questions[0].Answer), string(r.Input.Questions[1].Answer); a != "0" || b != "3" {
		t.Fatalf("answers are %s and %s: a later one replaced the first", a, b)
	}
}

func TestWithdrawnQuestionsTakeNoAnswer(t *testing.T) {
	r := begin(t, "input_required")
	if err := r.Withdraw("q1", t1); err != nil {
		t.Fatal(err)
	}
	if taken, err := r.Answer(answers, t1); taken || err != nil {
		t.Fatalf("taken %v, error %v", taken, err)
	}
	if got := r.PendingInputs(); len(got) != 1 || got.Get("q2") == nil {
		t.Fatalf("pending: %s", got.Bytes())
	}
}

func TestDelivered(t *testing.T) {
	r := begin(t, "input_required")
	if _, err := r.Answer(answers, t1); err != nil {
		t.Fatal(err)
	}
	r.Delivered("q1")
	r.Delivered("q2") // has no answer yet
	keys := []string{}
	for _, q := range r.Input.Questions {
		keys = append(keys, q.Key)
	}
	if !slices.Equal(keys, []string{"q2"}) {
		t.Fatalf("questions left: %q", keys)
	}
}

func TestRequestCancel(t *testing.T) {
	r := begin(t, "working")
	for _, now := range []time.Time{t1, t1.Add(time.Minute)} {
		if err := r.RequestCancel(now); err != nil {
			t.Fatal(err)
		}
	}
	if !r.State.CancelledAt.Equal(t1) || r.State.Status != Working {
		t.Fatalf("status %s, asked at %v: its holder sees to it, and the first wish counts", r.State.Status, r.State.CancelledAt)
	}
}

func TestHolders(t *testing.T) {
	r := started()
	want := func(what, holder string, epoch int64, attempts int) {
		t.Helper()
		if s := r.State; s.Holder != holder || s.Epoch != epoch || s.Attempts != attempts {
			t.Fatalf("%s: holder %q, epoch %d, attempts %d; want %q, %d, %d", what, s.Holder, s.Epoch, s.Attempts, holder, epoch, attempts)
		}
	}
	want("new", "r1", 1, 1)
	if err := r.Claim("r2", t1); err != nil {
		t.Fatal(err)
	}
	want("claimed", "r2", 2, 2)
	if err := r.Reclaim("r3", t1); err != nil {
		t.Fatal(err)
	}
	want("reclaimed", "r3", 3, 2)
	for _, c := range []struct {
		holder string
		epoch  int64
		want   error
	}{{"r3", 3, nil}, {"r3", 2, ErrFenced}, {"r1", 1, ErrFenced}, {"", 3, ErrFenced}} {
		if err := r.HeldBy(c.holder, c.epoch); !errors.Is(err, c.want) {
			t.Errorf("held by %q at %d: %v, want %v", c.holder, c.epoch, err, c.want)
		}
	}
	if err := r.Cancel("", t1); err != nil {
		t.Fatal(err)
	}
	if err := r.HeldBy("r3", 3); !errors.Is(err, ErrTerminal) {
		t.Errorf("held by its last holder once it has ended: %v", err)
	}
}

func TestTicketIsGoodOnce(t *testing.T) {
	r := started()
	r.Issue("one")
	r.Issue("two")
	for ticket, want := range map[string]bool{"": false, "one": false} {
		if r.Redeem(ticket) != want {
			t.Errorf("ticket %q is good", ticket)
		}
	}
	if !r.Redeem("two") || r.Redeem("two") {
		t.Error("the last ticket is not good exactly once")
	}
}

func TestOverdue(t *testing.T) {
	r := begin(t, "parked")
	if r.Overdue(t1) {
		t.Error("overdue without a deadline")
	}
	r.Input.Deadline = t1
	if r.Overdue(t0) || !r.Overdue(t1) {
		t.Error("not overdue exactly from its deadline on")
	}
	if err := r.Claim("r2", t1); err != nil || r.Overdue(t1) {
		t.Errorf("overdue though somebody holds it (%v)", err)
	}
}

func TestWire(t *testing.T) {
	r := begin(t, "input_required")
	r.Input.Questions[0].Params = wire.Raw(`{"big":12345678901234567890,"_x":"<"}`)
	got := string(r.Wire().Inputs.Bytes())
	want := `{"q1":{"method":"elicitation/create","params":{"big":12345678901234567890,"_x":"<"}},"q2":{"method":"roots/list","params":{}}}`
	if got != want {
		t.Errorf("inputRequests are %s, want %s", got, want)
	}
	if _, err := r.Answer(answers, t1); err != nil {
		t.Fatal(err)
	}
	if got := string(r.Wire().Inputs.Bytes()); got != `{"q2":{"method":"roots/list","params":{}}}` {
		t.Errorf("after one answer inputRequests are %s", got)
	}
	if err := r.Complete(wire.Raw(`{"a": 1}`), t1); err != nil {
		t.Fatal(err)
	}
	if w := r.Wire(); string(w.Result) != `{"a": 1}` || w.Inputs != nil || !w.LastUpdatedAt.Equal(t1) {
		t.Errorf("completed: %+v", w)
	}
}
