package taskroute

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskgate/wire"
)

func encoder() *Store {
	return &Store{opts: Options{Tombstone: time.Minute}}
}

// awkward is JSON that a careless store would change.
var awkward = wire.Raw(`{"z":1,"a":12345678901234567890,"f":1.50,"h":"<b>&</b>\u003c\/é` + "\u2028" + `","_meta":{"x":null},"e":{},"l":[]}`)

func full() *Record {
	r := started()
	r.State.Upstream, r.State.Tool, r.State.PollInterval = "u", "t", time.Second
	r.Request = Request{Params: awkward, ClientInfo: awkward, Capabilities: awkward, Decision: awkward,
		Headers: map[string][]string{"Mcp-Param-Region": {"<eu>"}}}
	state := ""
	if err := r.Park([]Question{{Method: "elicitation/create", Params: awkward, UpstreamKey: "k"}}, &state, t0); err != nil {
		panic(err)
	}
	r.Input.Questions[0].Answer = wire.Raw(`null`)
	r.Input.Deadline, r.Input.Ticket = t1, "ticket"
	return r
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	ended := full()
	if err := ended.Complete(wire.Raw("{ \"a\" :\n 1 }"), t1); err != nil {
		t.Fatal(err)
	}
	failed := full()
	if err := failed.Fail(awkward, "no", t1); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]*Record{"new": started(), "full": full(), "completed": ended, "failed": failed} {
		d, err := encoder().encode(want, allParts)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := encoder().decode(d)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want.dirty = 0
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

func TestOutcomeIsKeptToTheByte(t *testing.T) {
	raw := wire.Raw("\n{\t\"a\" : \"\xff\" }  ")
	for _, o := range []Outcome{{Result: raw}, {Error: raw}, {}} {
		got, err := decodeOutcome(encodeOutcome(o))
		if err != nil || !bytes.Equal(got.Result, o.Result) || !bytes.Equal(got.Error, o.Error) {
			t.Errorf("got %q, %v; want %q", got, err, o)
		}
	}
	if encodeOutcome(Outcome{}) != nil {
		t.Error("no outcome is stored as something")
	}
}

func TestDamagedDocuments(t *testing.T) {
	for name, parts := range map[string][NumParts][]byte{
		"state":   {PartState: []byte(`{"status":`)},
		"input":   {PartInput: []byte(`[]`)},
		"outcome": {PartOutcome: []byte(`{}`)},
		"request": {PartRequest: []byte(`"x"`)},
	} {
		if _, err := encoder().decode(Doc{ID: "x", Parts: parts}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// What a newer version has written is written again as it was, by whatever this
// one does to the record.
func TestMembersOfANewerVersionAreKept(t *testing.T) {
	const future = `"future":{"n":12345678901234567890,"s":"<\u00e9>"}`
	newer := Doc{ID: "x", Parts: [NumParts][]byte{
		PartState: []byte(`{"owner":{"tenant":"","subject":"ann"},"kind":"task","status":"input_required","holder":"r1","epoch":1,"rounds":1,` + future + `}`),
		PartInput: []byte(`{"questions":[{"key":"q1","method":"elicitation/create",` + future + `}],` + future + `}`),
	}}
	for name, c := range map[string]struct {
		change       func(*Record) error
		state, input int // how often the member is there afterwards
	}{
		"answered": {func(r *Record) error {
			_, err := r.Answer(wire.Object{}.With("q1", wire.Raw(`{}`)), t1)
			return err
		}, 1, 2},
		"asked": {func(r *Record) error {
			_, err := r.Ask([]Question{{Method: "roots/list"}}, t1)
			return err
		}, 1, 2},
		"claimed":   {func(r *Record) error { return r.Restart("r2", t1) }, 1, 2},
		"completed": {func(r *Record) error { return r.Complete(wire.Raw(`{}`), t1) }, 1, 1},
	} {
		r, err := encoder().decode(newer)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.change(r); err != nil {
			t.Fatal(err)
		}
		d, err := encoder().encode(r, partState|partInput)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(d.Parts[PartState]), future); got != c.state {
			t.Errorf("%s: the state has the member %d times, want %d: %s", name, got, c.state, d.Parts[PartState])
		}
		if got := strings.Count(string(d.Parts[PartInput]), future); got != c.input {
			t.Errorf("%s: the input has the member %d times, want %d: %s", name, got, c.input, d.Parts[PartInput])
		}
	}
}

func TestIndexFields(t *testing.T) {
	for situation, want := range map[string]Doc{
		"working":        {Open: true, Runnable: true, Holder: "r1"},
		"input_required": {Open: true, Holder: "r1"},
		"parked":         {Open: true},
		"answered":       {Open: true, Runnable: true},
		"completed":      {},
		"cancelled":      {},
	} {
		d, err := encoder().encode(begin(t, situation), partState)
		if err != nil {
			t.Fatal(err)
		}
		if d.Open != want.Open || d.Runnable != want.Runnable || d.Holder != want.Holder || d.Owner != ann.String() {
			t.Errorf("%s: %+v", situation, d)
		}
		if at := t0.Add(time.Hour); !d.ExpiresAt.Equal(at) || !d.ForgetAt.Equal(at.Add(time.Minute)) {
			t.Errorf("%s expires at %v and is forgotten at %v", situation, d.ExpiresAt, d.ForgetAt)
		}
		if d.Parts[PartState] == nil || d.Parts[PartInput] != nil || d.Parts[PartRequest] != nil {
			t.Errorf("%s: other parts than the state are written", situation)
		}
	}
	unlimited := started()
	unlimited.State.TTL = 0
	if d, err := encoder().encode(unlimited, 0); err != nil || !d.ExpiresAt.IsZero() || !d.ForgetAt.IsZero() {
		t.Errorf("an unlimited record expires at %v (%v)", d.ExpiresAt, err)
	}
	held := started()
	held.State.Kind = Held
	if d, err := encoder().encode(held, 0); err != nil || d.ForgetAt.After(d.ExpiresAt) {
		t.Errorf("a held record leaves a tombstone (%v)", err)
	}
}

func TestOwnersAreToldApart(t *testing.T) {
	seen := map[string]Owner{}
	for _, tenant := range []string{"", "a", "a/b", "a%2Fb", "%", "%25", "/"} {
		for _, subject := range []string{"", "b", "/", "%2F", "a/b"} {
			o := Owner{tenant, subject}
			s := o.String()
			if other, ok := seen[s]; ok {
				t.Errorf("%+v and %+v are both %q", o, other, s)
			}
			seen[s] = o
			if got := parseOwner(s); got != o {
				t.Errorf("%+v comes back as %+v", o, got)
			}
		}
	}
}
