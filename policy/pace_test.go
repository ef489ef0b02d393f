package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// paced is a Pacer that has seen the tool "t" take so long, in turn.
func paced(calls int, took ...time.Duration) *Pacer {
	p := NewPacer()
	for i := range calls {
		p.Observe("u", "t", took[i%len(took)])
	}
	return p
}

func TestAutoFollowsWhatWasMeasured(t *testing.T) {
	s := load(t, "defaults: {promoteAfter: auto, pollInterval: adaptive, auto: {min: 500ms, max: 5s, minPoll: 1s, maxPoll: 1m}}\n")
	for _, c := range []struct {
		name    string
		p       *Pacer
		support string
		notes   string           // annotations
		promote [2]time.Duration // from, to
		poll    [2]time.Duration
	}{
		{"nothing is known", NewPacer(), "", ``, [2]time.Duration{2 * time.Second, 2 * time.Second}, [2]time.Duration{time.Second, time.Second}},
		{"it may run as a task", NewPacer(), "optional", ``, [2]time.Duration{500 * time.Millisecond, 500 * time.Millisecond}, [2]time.Duration{time.Second, time.Second}},
		{"forbidden says nothing", NewPacer(), "forbidden", ``, [2]time.Duration{2 * time.Second, 2 * time.Second}, [2]time.Duration{time.Second, time.Second}},
		{"it reads only what is its own", NewPacer(), "", `{"readOnlyHint":true,"openWorldHint":false}`, [2]time.Duration{5 * time.Second, 5 * time.Second}, [2]time.Duration{time.Second, time.Second}},
		{"it reads, and may run as a task", NewPacer(), "required", `{"readOnlyHint":true,"openWorldHint":false}`, [2]time.Duration{500 * time.Millisecond, 500 * time.Millisecond}, [2]time.Duration{time.Second, time.Second}},
		{"it reads who knows what", NewPacer(), "", `{"readOnlyHint":true}`, [2]time.Duration{2 * time.Second, 2 * time.Second}, [2]time.Duration{time.Second, time.Second}},
		{"it changes only what is its own", NewPacer(), "", `{"openWorldHint":false,"idempotentHint":true}`, [2]time.Duration{2 * time.Second, 2 * time.Second}, [2]time.Duration{time.Second, time.Second}},
		{"its annotations make no sense", NewPacer(), "", `{"readOnlyHint":true,"openWorldHint":"no"}`, [2]time.Duration{2 * time.Second, 2 * time.Second}, [2]time.Duration{time.Second, time.Second}},
		{"it reads, and always slowly", paced(20, 50*time.Second), "", `{"readOnlyHint":true,"openWorldHint":false}`, [2]time.Duration{0, 0}, [2]time.Duration{10 * time.Second, 15 * time.Second}},
		{"too few calls", paced(enough-1, time.Hour), "", ``, [2]time.Duration{2 * time.Second, 2 * time.Second}, [2]time.Duration{time.Minute, time.Minute}},
		{"always slow", paced(20, 50*time.Second), "", ``, [2]time.Duration{0, 0}, [2]time.Duration{10 * time.Second, 15 * time.Second}},
		{"always quick", paced(20, time.Second), "", ``, [2]time.Duration{2 * time.Second, 3 * time.Second}, [2]time.Duration{time.Second, time.Second}},
		{"very quick", paced(20, time.Millisecond), "", ``, [2]time.Duration{500 * time.Millisecond, 500 * time.Millisecond}, [2]time.Duration{time.Second, time.Second}},
		{"now quick, now slow", paced(20, time.Second, time.Minute), "", ``, [2]time.Duration{2 * time.Second, 3 * time.Second}, [2]time.Duration{time.Second, 20 * time.Second}},
	} {
		d := s.Decide(Query{Upstream: "u", Tool: "t", TaskSupport: c.support, Annotations: json.RawMessage(c.notes), Pace: c.p.Pace("u", "t")})
		if d.PromoteAfter < c.promote[0] || d.PromoteAfter > c.promote[1] {
			t.Errorf("%s: promoteAfter is %v, want %v", c.name, d.PromoteAfter, c.promote)
		}
		if d.PollInterval < c.poll[0] || d.PollInterval > c.poll[1] {
			t.Errorf("%s: pollInterval is %v, want %v", c.name, d.PollInterval, c.poll)
		}
	}
}

func TestWhatIsSaidIsNotLearned(t *testing.T) {
	q := Query{Upstream: "u", Tool: "t", Pace: paced(20, time.Hour).Pace("u", "t")}
	d := load(t, "defaults: {promoteAfter: 3s}\n").Decide(q)
	if d.PromoteAfter != 3*time.Second || d.PollInterval != time.Second {
		t.Errorf("got %v, %v", d.PromoteAfter, d.PollInterval)
	}
}

func TestOldCallsFade(t *testing.T) {
	p := paced(1000, time.Hour)
	for range 3 * manyCalls {
		p.Observe("u", "t", time.Second)
	}
	if got := p.Pace("u", "t"); got.Slow > 2*time.Second || got.Calls >= manyCalls {
		t.Errorf("after many quick calls: %+v", got)
	}
}

func TestPacerIsBounded(t *testing.T) {
	p := NewPacer()
	for i := range memoEntries + 10 {
		p.Observe("u", fmt.Sprint("tool", i), time.Second)
	}
	p.Observe("u", strings.Repeat("x", memoNameBytes), time.Second)
	if p.Len() > memoEntries || p.Pace("u", strings.Repeat("x", memoNameBytes)).Calls != 0 {
		t.Errorf("knows %d tools", p.Len())
	}
}

func TestAFrozenDecisionLearnsNoMore(t *testing.T) {
	s := load(t, "defaults: {promoteAfter: auto}\n")
	q := Query{Upstream: "u", Tool: "t", Pace: paced(20, time.Hour).Pace("u", "t")}
	frozen, err := s.Decide(q).Freeze()
	if err != nil {
		t.Fatal(err)
	}
	d, err := Thaw(frozen)
	if err != nil || d.PromoteAfter != 0 || d.at(Query{}).PromoteAfter != 0 {
		t.Errorf("got %v, %v; want a task at once", d.PromoteAfter, err)
	}
}
