package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

const explainFile = `
profile: edge
defaults: {promoteAfter: 3s}
rules:
  - name: exact
    match: {upstream: files, tool: export_all}
  - name: big
    match: {tool: "export_*", when: args.rows > 10000}
    task: required
    timeout: 2h
    idleTimeout: 20m
  - name: draft
    match: {upstream: reports, tool: draft}
    timeout: 0s
    ttl: 0s
    concurrency: {limit: 0}
    input: mrtr
    inputTimeout: {after: 2h, then: cancel}
    dedupe: {within: 10m}
  - match: {tool: ping}
    task: forbidden
    timeout: 5s
    inputTimeout: {after: 1s, then: fail}
  - match: {tool: shy}
    undeclared: reject
  - match: {tool: batch}
    undeclared: jobs
  - match: {tool: "auto_*"}
    promoteAfter: auto
    pollInterval: adaptive
`

// TestExplain compares whole explanations, as `gateway explain` prints them.
func TestExplain(t *testing.T) {
	s := load(t, explainFile)
	for _, c := range []struct {
		name     string
		q        Query
		declared bool
		more     []Limit
	}{
		{"by-condition", Query{Tool: "export_csv", Arguments: json.RawMessage(`{"rows": 20000}`)}, true, []Limit{{"limits.queueTimeout", 30 * time.Second, "without a turn at the upstream for so long, " + NotSent, true}}},
		{"by-condition-refused", Query{Tool: "export_csv", Arguments: json.RawMessage(`{"rows": 20000}`)}, false, nil},
		{"by-default", Query{Tool: "export_csv"}, true, nil},
		{"unlimited", Query{Tool: "draft"}, true, nil},
		{"held", Query{Tool: "draft"}, false, nil},
		{"forbidden", Query{Tool: "ping"}, true, nil},
		{"refused", Query{Tool: "shy"}, false, nil},
		{"job", Query{Tool: "batch"}, false, nil},
		{"no-job", Query{Tool: "batch"}, true, nil},
		{"nothing-learned", Query{Tool: "auto_new", TaskSupport: "optional"}, true, nil},
		{"learned", Query{Tool: "auto_slow", Pace: paced(20, 50*time.Second).Pace("u", "t")}, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.q.Upstream = "reports"
			e := Explain(s, c.q, c.declared, c.more...)
			if d := s.Decide(c.q); d.Rule != e.Decision.Rule || d.Source != e.Decision.Source {
				t.Errorf("explains %s, decides %s", e.Decision.Rule, d.Rule)
			}
			var b strings.Builder
			if err := e.WriteText(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/explain/"+c.name+".txt", b.String())
		})
	}
}

func TestExplainDoesNotCount(t *testing.T) {
	s := load(t, explainFile)
	Explain(s, Query{Upstream: "u", Tool: "export_csv"}, true)
	if errs := s.EvalErrors(); errs != nil {
		t.Errorf("counted %v", errs)
	}
}
