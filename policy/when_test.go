package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// decideWhen tells whether a rule with this condition decides q.
func decideWhen(t testing.TB, when string, q Query) (matched bool, errs []EvalError) {
	t.Helper()
	s := load(t, fmt.Sprintf("rules: [{name: it, match: {when: %q}}]", when))
	return s.Decide(q).Rule == "it", s.EvalErrors()
}

func TestWhen(t *testing.T) {
	q := Query{
		Upstream: "reports", Tool: "export_csv",
		Arguments:    json.RawMessage(`{"rows": 20000, "ratio": 0.5, "big": 9007199254740993, "name": "x", "list": [1, 2], "none": null, "deep": {"a": {"b": true}}}`),
		Annotations:  json.RawMessage(`{"readOnlyHint": true}`),
		ClientInfo:   json.RawMessage(`{"name": "inspector", "version": "2"}`),
		Capabilities: json.RawMessage(`{"elicitation": {}}`),
		Tenant:       "acme", Subject: "ann",
		Headers: map[string]string{"x-team": "red"},
	}
	for when, want := range map[string]bool{
		`args.rows > 10000`:                            true,
		`args.rows > 20000`:                            false,
		`args.rows > 19999.5`:                          true,
		`args.ratio < 1`:                               true,
		`args.big == 9007199254740993`:                 true,
		`args.big == 9007199254740992`:                 false,
		`args.none == null`:                            true,
		`args.list.exists(x, x == 2)`:                  true,
		`size(args.list) == 2`:                         true,
		`args.deep.a.b`:                                true,
		`!has(args.missing)`:                           true,
		`has(args.missing) && args.missing > 1`:        false,
		`args.name == "x" || args.missing`:             true, // || needs one side only
		`tool.name.startsWith("export_")`:              true,
		`tool.annotations.readOnlyHint`:                true,
		`client.name == "inspector"`:                   true,
		`has(client.capabilities.elicitation)`:         true,
		`principal.tenant == "acme"`:                   true,
		`principal.subject in ["bob", "eve"]`:          false,
		`headers["x-team"] == "red"`:                   true,
		`"x-other" in headers`:                         false,
		`tool.name.matches("^[a-z]+_(csv|pdf)$")`:      true,
		`args.rows > 10 && principal.tenant != "acme"`: false,
	} {
		if got, errs := decideWhen(t, when, q); got != want || errs != nil {
			t.Errorf("%s: got %v, want %v; errors: %v", when, got, want, errs)
		}
	}
}

func TestWhenThatCannotBeEvaluatedDoesNotMatch(t *testing.T) {
	long := `{"list": [` + strings.Repeat("1,", 2000) + `1]}`
	for _, c := range []struct{ when, args, want string }{
		{`args.rows > 1`, ``, "no such key"},
		{`args.rows > 1`, `{"rows": "many"}`, "no such overload"},
		{`!(args.rows > 1)`, `{}`, "no such key"},
		{`args.name`, `{"name": "x"}`, "not true or false"},
		{`args.rows > 1`, `[1]`, "cannot unmarshal"},
		{`args.rows > 1`, `{"rows": 1e999}`, "another failure"},
		{`int(args.s) > 1`, `{"s": "hunter2"}`, "another failure"},
		{`args.list.all(x, args.list.all(y, x == y))`, long, "cost limit exceeded"},
		{`headers["x-team"] == "red"`, `{}`, "no such key"},
	} {
		matched, errs := decideWhen(t, c.when, Query{Arguments: json.RawMessage(c.args)})
		if matched || len(errs) != 1 || errs[0].Count != 1 || errs[0].Rule != "it" || !strings.Contains(errs[0].First, c.want) {
			t.Errorf("%s with %.20s: matched: %v, errors: %v", c.when, c.args, matched, errs)
		}
	}
}

func TestFirstFailureIsToldOnceAndAllAreCounted(t *testing.T) {
	s := load(t, "rules:\n- {name: a, match: {when: args.x}}\n- {name: b, match: {when: args.y}}\n")
	var told []EvalError
	s.onEvalError = func(e EvalError) { told = append(told, e) }
	for range 3 {
		if d := s.Decide(Query{}); d.Rule != "defaults" {
			t.Fatalf("decided by %s", d.Rule)
		}
	}
	if len(told) != 2 || told[0].Rule != "a" || told[0].Source != "test.yaml:2" || told[1].Rule != "b" {
		t.Errorf("told %+v", told)
	}
	if errs := s.EvalErrors(); len(errs) != 2 || errs[0].Count != 3 || errs[1].Count != 3 {
		t.Errorf("counted %+v", errs)
	}
}

// TestConditionsAreReachedInOrder: a rule decides though a later condition would
// fail, and arguments are not decoded for rules that come first without one.
func TestConditionsAreReachedInOrder(t *testing.T) {
	s := load(t, `
rules:
  - {name: literal, match: {tool: a}}
  - {name: first, match: {tool: "b*", when: args.x}}
  - {name: second, match: {upstream: u, when: args.y}}
  - {name: third, match: {tool: "b*"}}
  - {name: never, match: {tool: "*", when: args.z.z}}
`)
	for _, c := range []struct{ tool, args, rule string }{
		{"a", `not JSON`, "literal"},
		{"b1", `{"x": true, "y": true}`, "first"},
		{"b1", `{"x": false, "y": true}`, "second"},
		{"b1", `{"x": false, "y": false}`, "third"},
	} {
		if d := s.Decide(Query{Upstream: "u", Tool: c.tool, Arguments: json.RawMessage(c.args)}); d.Rule != c.rule {
			t.Errorf("%s %s: decided by %s, want %s", c.tool, c.args, d.Rule, c.rule)
		}
	}
	if errs := s.EvalErrors(); errs != nil {
		t.Errorf("errors: %v", errs)
	}
}
