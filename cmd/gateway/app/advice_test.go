package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"taskgate/policy"
)

func loadPolicy(t *testing.T, text string) *policy.Set {
	t.Helper()
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := policy.Load([]string{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestAdviceIsGivenOnce: what is wrong is logged when it turns out, and not again
// before the policy is another.
func TestAdviceIsGivenOnce(t *testing.T) {
	const text = `
rules:
  - match: {upstream: reports, tool: exprot}
  - match: {upstream: repotrs}
  - match: {tool: "*_all"}
    onLoss: rerun
    maxAttempts: 2
  - match: {tool: slow}
    undeclared: jobs
`
	set, again := loadPolicy(t, text), loadPolicy(t, text)
	listed := map[string]policy.Upstream{"reports": {}, "files": {}}
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		a := newAdvisor(func() *policy.Set { return set }, func() map[string]policy.Upstream {
			now := map[string]policy.Upstream{}
			for name, u := range listed {
				now[name] = u
			}
			return now
		}, zap.New(core))
		go func() { _ = a.Run(t.Context()) }()
		learn := func(what string, want int) {
			t.Helper()
			a.learned()
			synctest.Wait()
			if got := logs.TakeAll(); len(got) != want {
				t.Errorf("%s: %d lines, want %d: %v", what, len(got), want, got)
			}
		}
		learn("before anything is listed, an upstream that does not exist", 1)
		listed["reports"] = policy.Upstream{Tools: []policy.Tool{{Name: "export"}}}
		learn("a tool that does not exist", 1)
		learn("the same", 0)
		listed["files"] = policy.Upstream{Tools: []policy.Tool{{Name: "wipe_all", Annotations: json.RawMessage(`{"destructiveHint":true}`)}, {Name: "slow"}, {Name: "job_result"}}}
		learn("a tool that must not run twice, and a name that jobs need", 2)
		set = again
		learn("a policy that was reloaded", 4)

		var fickle []policy.Tool
		for i := range 2 * maxAdvice {
			fickle = append(fickle, policy.Tool{Name: fmt.Sprintf("%d_all", i)})
		}
		listed["fickle"] = policy.Upstream{Tools: fickle}
		learn("more than anybody reads", maxAdvice-4)
	})
}
