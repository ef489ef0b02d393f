package policy

import "testing"

// TestWhichCallsCanBecomeJobs: it is asked without a call, so conditions that may
// hold count as if they did.
func TestWhichCallsCanBecomeJobs(t *testing.T) {
	s := load(t, `
rules:
  - match: {upstream: reports, tool: ping}
    task: forbidden
    undeclared: jobs
  - match: {upstream: reports, tool: "export_*", when: args.rows > 10}
    undeclared: jobs
  - match: {upstream: reports}
  - match: {upstream: "batch-*", tool: run}
    task: required
    undeclared: jobs
`)
	for _, c := range []struct {
		upstream, tool string
		offers, makes  bool
	}{
		{"reports", "export_csv", true, true},
		{"reports", "ping", true, false},
		{"reports", "import_csv", true, false},
		{"batch-1", "run", true, true},
		{"batch-1", "stop", true, false},
		{"files", "run", false, false},
	} {
		if got := s.OffersJobs(c.upstream); got != c.offers {
			t.Errorf("OffersJobs(%s) = %t", c.upstream, got)
		}
		if got := s.MakesJobs(c.upstream, c.tool); got != c.makes {
			t.Errorf("MakesJobs(%s, %s) = %t", c.upstream, c.tool, got)
		}
	}
	for file, want := range map[string]bool{
		"defaults: {undeclared: jobs}":                  true,
		"defaults: {undeclared: jobs, task: forbidden}": false,
		"defaults: {}": false,
	} {
		s := load(t, file)
		if s.OffersJobs("any") != want || s.MakesJobs("any", "t") != want {
			t.Errorf("%s: offers %t, makes %t", file, s.OffersJobs("any"), s.MakesJobs("any", "t"))
		}
	}
}
