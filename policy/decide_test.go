package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDecideDoesNotAllocate(t *testing.T) {
	s := load(t, thousandRules())
	q := Query{Upstream: "u3", Tool: "tool_500", Arguments: json.RawMessage(`{"a": 1}`)}
	if n := testing.AllocsPerRun(100, func() { s.Decide(q) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMemoIsBounded(t *testing.T) {
	s := load(t, "rules: [{match: {tool: a}}]")
	for i := range 2*memoEntries + 1 {
		s.Decide(Query{Tool: fmt.Sprint("made-up-", i)})
	}
	s.Decide(Query{Tool: strings.Repeat("x", memoNameBytes+1)})
	if n := len(s.candidates.entries); n == 0 || n > memoEntries {
		t.Errorf("%d entries", n)
	}
	if d := s.Decide(Query{Tool: "a"}); d.Rule != "*/a" {
		t.Errorf("decided by %s", d.Rule)
	}
}

// TestSeveralFiles: rules in the order of the files' names, one set of defaults.
func TestSeveralFiles(t *testing.T) {
	s, findings := compile([]content{
		{"10-team.yaml", []byte("defaults: {ttl: 2h}\nrules: [{match: {tool: \"a*\"}, timeout: 1m}]")},
		{"20-base.yaml", []byte("profile: edge\ndefaults: {pollInterval: 7s, concurrency: {limit: 1}}\nrules: [{match: {tool: \"*\"}, timeout: 2m}]")},
	}, nil)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	d := s.Decide(Query{Tool: "abc"})
	if d.Source != "10-team.yaml:2" || d.Timeout != time.Minute || d.TTL != 2*time.Hour || d.PollInterval != 7*time.Second ||
		d.PromoteAfter != 10*time.Second || d.Concurrency != (Concurrency{1, 0, PerRule, 5 * time.Minute}) {
		t.Errorf("got %+v", d)
	}
	if d := s.Decide(Query{Tool: "b"}); d.Source != "20-base.yaml:3" {
		t.Errorf("got %+v", d)
	}
}

func TestWhatTaskImplies(t *testing.T) {
	for _, c := range []struct {
		file         string
		promoteAfter time.Duration
		undeclared   Undeclared
		input        InputMode
	}{
		{"defaults: {promoteAfter: 5s}\nrules: [{match: {tool: t}, task: required}]", 0, Reject, InputTask},
		{"defaults: {promoteAfter: 5s}\nrules: [{match: {tool: t}, task: required, promoteAfter: 3s}]", 3 * time.Second, Reject, InputTask},
		{"defaults: {task: required}", 0, Reject, InputTask},
		{"defaults: {task: required, promoteAfter: 5s}", 5 * time.Second, Reject, InputTask},
		{"defaults: {task: required}\nrules: [{match: {tool: t}, promoteAfter: 3s}]", 3 * time.Second, Reject, InputTask},
		{"profile: edge\ndefaults: {task: required}", 0, Reject, InputTask},
		{"defaults: {undeclared: hold}\nrules: [{match: {tool: t}, task: required}]", 0, Reject, InputTask},
		{"defaults: {undeclared: jobs}\nrules: [{match: {tool: t}, task: required}]", 0, Jobs, InputTask},
		{"defaults: {undeclared: jobs}\nrules: [{match: {tool: t}, task: forbidden}]", 2 * time.Second, Hold, InputMRTR},
		{"defaults: {undeclared: reject}", 2 * time.Second, Reject, InputTask},
		{"defaults: {undeclared: reject}\nrules: [{match: {tool: t}, task: forbidden}]", 2 * time.Second, Hold, InputMRTR},
	} {
		d := load(t, c.file).Decide(Query{Tool: "t"})
		if d.PromoteAfter != c.promoteAfter || d.Undeclared != c.undeclared || d.Input != c.input {
			t.Errorf("%s: got promoteAfter %v, undeclared %s, input %s", c.file, d.PromoteAfter, d.Undeclared, d.Input)
		}
	}
}

// TestFrozenForm: records in stores hold this; it may only grow.
func TestFrozenForm(t *testing.T) {
	d := load(t, `
rules:
  - name: all
    match: {tool: t}
    task: optional
    promoteAfter: 1ms
    timeout: 2h
    idleTimeout: 1m
    ttl: 24h
    pollInterval: 5s
    input: mrtr
    inputTimeout: {after: 30m, then: fail}
    onLoss: rerun
    maxAttempts: 3
    concurrency: {limit: 2, queue: 100, per: principal, wait: 90s}
    dedupe: {by: [principal, tool], within: 10m}
    undeclared: reject
    share: tenant
`).Decide(Query{Tool: "t"})
	frozen, err := d.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	var pretty strings.Builder
	enc := json.NewEncoder(&pretty)
	enc.SetIndent("", "  ")
	if err := enc.Encode(frozen); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/frozen.json", pretty.String())
	if back, err := Thaw(frozen); err != nil || !reflect.DeepEqual(back, d) {
		t.Errorf("thawed %+v, %v; want %+v", back, err, d)
	}
}

func TestThawOldAndNew(t *testing.T) {
	d, err := Thaw(json.RawMessage(`{"task":"required","ttl":5,"concurrency":{"limit":2},"rule":"r","future":{"x":1}}`))
	if err != nil || d.Concurrency != (Concurrency{2, 0, PerRule, 5 * time.Minute}) || d.Task != Required || d.TTL != 5 || d.MaxAttempts != 1 || d.OnLoss != LossFails || d.Rule != "r" {
		t.Errorf("got %+v, %v", d, err)
	}
	if _, err := Thaw(json.RawMessage(`{"ttl":"long"}`)); err == nil {
		t.Error("a damaged decision was thawed")
	}
}

// TestCovers: whatever p.covers says is so is checked against names.
func TestCovers(t *testing.T) {
	patterns := []string{"*", "a", "ab", "a*", "*b", "a*b", "a?", "?", "??*", "{a,b}*", "*{a,b}", "[ab]*", "a**b", "*a*", "a.*", "*/*"}
	names := []string{"", "a", "b", "ab", "ba", "aab", "abb", "acb", "bab", "a.b", "a/b", "xaxbx", "aaab", "b/a"}
	for _, x := range patterns {
		for _, y := range patterns {
			p, q := mustPattern(t, x), mustPattern(t, y)
			for _, n := range names {
				if p.covers(q) && q.matches(n) && !p.matches(n) {
					t.Errorf("%q covers %q, but does not match %q", x, y, n)
				}
			}
		}
	}
	for _, pair := range [][2]string{{"*", "a*"}, {"a*", "ab"}, {"a*", "a*b"}, {"*", "?"}, {"a*", "a?"}, {"{a,b}*", "a*"}} {
		if !mustPattern(t, pair[0]).covers(mustPattern(t, pair[1])) {
			t.Errorf("%q does not cover %q", pair[0], pair[1])
		}
	}
}

func mustPattern(t *testing.T, text string) pattern {
	t.Helper()
	p, err := compilePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
