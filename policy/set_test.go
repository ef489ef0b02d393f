package policy

import (
	"strings"
	"testing"
	"time"
)

// load compiles one file that is expected to be right.
func load(t testing.TB, text string) *Set {
	t.Helper()
	s, findings := compile([]content{{"test.yaml", []byte(text)}}, nil)
	if findings.Failed() {
		t.Fatalf("unexpected findings:\n%v", findings)
	}
	return s
}

func TestDefaultPolicy(t *testing.T) {
	d := Default().Decide(Query{Upstream: "any", Tool: "thing"})
	want := Decision{
		Task: Optional, PromoteAfter: 2 * time.Second, Timeout: 15 * time.Minute, TTL: time.Hour, PollInterval: time.Second,
		Input: InputTask, Rule: "defaults", Source: "built-in",
	}
	if d.Task != want.Task || d.PromoteAfter != want.PromoteAfter || d.Timeout != want.Timeout || d.TTL != want.TTL ||
		d.PollInterval != want.PollInterval || d.Input != want.Input || d.Rule != want.Rule || d.Source != want.Source {
		t.Errorf("got %+v, want %+v", d, want)
	}
}

const decisionsFile = `
defaults: {promoteAfter: 3s, timeout: 10m}
rules:
  - name: exact
    match: {upstream: reports, tool: export_all}
    task: required
    timeout: 2h
    ttl: 24h
  - match: {upstream: reports, tool: "export_*"}
    task: required
    promoteAfter: 1s
  - match: {tool: "fs/*.read"}
    task: forbidden
  - match: {tool: "{a,b}?"}
    input: mrtr
  - match: {upstream: "team-*"}
    promoteAfter: 9s
`

func TestFirstMatchWins(t *testing.T) {
	s := load(t, decisionsFile)
	for _, c := range []struct {
		upstream, tool string
		rule, source   string
		task           Mode
		promoteAfter   time.Duration
		input          InputMode
	}{
		{"reports", "export_all", "exact", "test.yaml:4", Required, 0, InputTask},
		{"reports", "export_csv", "reports/export_*", "test.yaml:9", Required, time.Second, InputTask},
		{"other", "export_all", "defaults", "test.yaml:2", Optional, 3 * time.Second, InputTask},
		{"x", "fs/a/b.c.read", "*/fs/*.read", "test.yaml:12", Forbidden, 3 * time.Second, InputMRTR},
		{"x", "a1", "*/{a,b}?", "test.yaml:14", Optional, 3 * time.Second, InputMRTR},
		{"x", "ab1", "defaults", "test.yaml:2", Optional, 3 * time.Second, InputTask},
		{"team-7", "anything", "team-*/*", "test.yaml:16", Optional, 9 * time.Second, InputTask},
		{"x", "Export_all", "defaults", "test.yaml:2", Optional, 3 * time.Second, InputTask},
	} {
		for range 2 { // the second answer comes from the memo
			d := s.Decide(Query{Upstream: c.upstream, Tool: c.tool})
			if d.Rule != c.rule || d.Source != c.source || d.Task != c.task || d.PromoteAfter != c.promoteAfter || d.Input != c.input {
				t.Errorf("%s/%s: got %+v, want %+v", c.upstream, c.tool, d, c)
			}
		}
	}
}

func TestEverythingWrongIsReportedAtOnce(t *testing.T) {
	_, findings := compile([]content{{"test.yaml", []byte("defaults:\n  ttl: 5\nrules:\n- match: {tol: x}\n  tsk: never\n  task: never\n---\n{}\n")}}, nil)
	got := findings.Error()
	for _, want := range []string{
		`test.yaml:2: error: defaults.ttl: "5" has no unit; write 5s`,
		`test.yaml:4: error: rules[0].match: unknown key "tol"; did you mean tool?`,
		`test.yaml:5: error: rules[0]: unknown key "tsk"; did you mean task?`,
		`test.yaml:6: error: rules[0].task: "never" is not known; write one of forbidden, optional, required`,
		`test.yaml:7: error: a second document begins here`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
