package policy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzLoad: whatever a file holds, it is loaded or refused with a reason, and
// what was loaded decides every call within the bounds of its own rules.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "../examples/policies/*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			f.Fatalf("no seeds: %v", err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, "reports", "export_csv", []byte(`{"rows": 20000}`))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, upstream, tool string, args []byte) {
		set, findings := compile([]content{{"fuzz.yaml", data}}, nil)
		if (set == nil) != findings.Failed() {
			t.Fatalf("set: %v, findings: %v", set != nil, findings)
		}
		if set == nil {
			return
		}
		q := Query{Upstream: upstream, Tool: tool, Arguments: args}
		checkDecision(t, set, q)
	})
}

func checkDecision(t *testing.T, set *Set, q Query) {
	t.Helper()
	d := set.Decide(q)
	if d.Rule == "" || d.Source == "" || d.Task == "" || d.PollInterval < time.Millisecond || d.MaxAttempts < 1 {
		t.Errorf("an incomplete decision: %+v", d)
	}
	for _, v := range []time.Duration{d.PromoteAfter, d.Timeout, d.IdleTimeout, d.TTL, d.InputTimeout.After, d.Dedupe.Within} {
		if v < 0 {
			t.Errorf("a negative duration: %+v", d)
		}
	}
	if e := Explain(set, q, true); e.Decision.Rule != d.Rule || e.Decision.Source != d.Source {
		t.Errorf("explains %s at %s, decides %s at %s", e.Decision.Rule, e.Decision.Source, d.Rule, d.Source)
	}
	frozen, err := d.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Thaw(frozen); err != nil || fmt.Sprint(back) != fmt.Sprint(d) {
		t.Errorf("thawed %+v, %v; want %+v", back, err, d)
	}
}

// FuzzWhen: whatever a condition and the arguments are, evaluating ends, and
// quickly.
func FuzzWhen(f *testing.F) {
	for _, when := range []string{
		`has(args.rows) && args.rows > 10000`, `args.list.all(x, args.list.exists(y, x == y))`, `tool.name.matches("a+b")`,
		`args.a in args.b`, `size(string(args)) > 3`, `args.map(x, args[x]) == []`, `timestamp(args.t) > timestamp("2026-01-01T00:00:00Z")`,
	} {
		f.Add(when, []byte(`{"rows": 1, "list": [1, 2, {"a": []}], "t": "2026-11-29T00:00:00Z"}`))
	}
	env, err := newEnvironment()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, when string, args []byte) {
		c, err := compileWhen(env, when)
		if err != nil {
			return
		}
		start := time.Now()
		q := Query{Tool: "t", Arguments: json.RawMessage(args)}
		first, errFirst := c.holds(&facts{query: q})
		again, errAgain := c.holds(&facts{query: q})
		if first != again || (errFirst == nil) != (errAgain == nil) || (first && errFirst != nil) {
			t.Errorf("%q: %v, %v and then %v, %v", when, first, errFirst, again, errAgain)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q took %v", when, took)
		}
	})
}
