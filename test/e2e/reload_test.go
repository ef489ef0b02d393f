package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"taskgate/internal/mcptest"
)

// policyDetail is what /readyz says of the policy.
func (g *Gateway) policyDetail(t *testing.T) (hash, problem string) {
	t.Helper()
	resp, err := http.Get(g.Admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body struct {
		Policy struct{ Hash, Error string } `json:"policy"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("readyz: %d, %v", resp.StatusCode, err)
	}
	return body.Policy.Hash, body.Policy.Error
}

// A policy that is wrong changes nothing but what the log, /readyz and metrics
// say; SIGHUP reads the files again each time; one that is right holds.
func TestPolicyIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	put := func(text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	put("rules: [{name: one, match: {tool: quick}}]\n")
	upstream := mcptest.NewLegacy(mcptest.Tool{Name: "quick", Run: lasts(0)})
	g := Start(t, Options{Upstream: upstream.Start(t), Args: []string{"--policy", path}})
	c := newClient(t, g.Endpoint)
	decided := func(rule string, calls float64) {
		t.Helper()
		c.call(t, "quick", arguments{"key": rule})
		if n := g.metric(t, `taskgate_decisions_total{rule="`+rule+`",upstream="default"}`); n != calls {
			t.Errorf("rule %s has decided %v calls, not %v", rule, n, calls)
		}
	}
	decided("one", 1)
	first, _ := g.policyDetail(t)

	put("rules: [{match: {tol: quick}}]\n")
	Eventually(t, "the mistake is noticed", func() bool { return g.metric(t, "taskgate_policy_reload_ok") == 0 })
	for range 5 { // more than the files' own change could cause
		before := g.metric(t, "taskgate_policy_reload_failures")
		if err := syscall.Kill(g.PID(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		Eventually(t, "SIGHUP is followed", func() bool { return g.metric(t, "taskgate_policy_reload_failures") > before })
	}
	const mistake = `policy.yaml:1: error: rules[0].match: unknown key "tol"; did you mean tool?`
	if hash, problem := g.policyDetail(t); hash != first || !strings.Contains(problem, mistake) {
		t.Errorf("readyz tells of policy %s, which was %s, and says %q", hash, first, problem)
	}
	decided("one", 2)
	const told = "policy not reloaded; the old one holds"
	Eventually(t, "the log tells of the mistake", func() bool { return strings.Contains(g.Output(), told) })
	if n := strings.Count(g.Output(), told); n != 1 {
		t.Errorf("the log tells %d times of the mistake", n)
	}

	put("rules: [{name: two, match: {tool: quick}}]\n")
	Eventually(t, "the new policy holds", func() bool { return g.metric(t, "taskgate_policy_reload_ok") == 1 })
	second, problem := g.policyDetail(t)
	if second == first || problem != "" || g.metric(t, `taskgate_policy_info{hash="`+second+`"}`) != 1 {
		t.Errorf("policy %s after %s, %q", second, first, problem)
	}
	decided("two", 1)
}
