package policy

import "slices"

// The tools by which clients that declare no tasks reach theirs, which are called
// jobs there. Each endpoint may put a prefix before the names.
const (
	JobStatus = "job_status"
	JobResult = "job_result"
	JobCancel = "job_cancel"
)

// JobTools are the names of these tools at an endpoint with the prefix.
func JobTools(prefix string) []string {
	return []string{prefix + JobStatus, prefix + JobResult, prefix + JobCancel}
}

// makesJobs tells whether calls of clients that declare no tasks can become jobs.
func (d Decision) makesJobs() bool { return d.Undeclared == Jobs && d.Task != Forbidden }

// OffersJobs tells whether there is a rule by which calls to the upstream can
// become jobs.
func (s *Set) OffersJobs(upstream string) bool {
	return slices.ContainsFunc(s.jobs, func(r *rule) bool { return r == s.fallback || r.upstream.matches(upstream) })
}

// findJobs finds the rules by which calls can become jobs.
func (s *Set) findJobs() {
	for _, r := range append(slices.Clone(s.rules), s.fallback) {
		if r.decision.makesJobs() {
			s.jobs = append(s.jobs, r)
		}
	}
}

// MakesJobs tells whether calls of the tool can become jobs, whatever their
// arguments and callers are.
func (s *Set) MakesJobs(upstream, tool string) bool { return s.jobRule(upstream, tool) != nil }

// jobRule is the first rule by which calls of the tool can become jobs; nil: none.
func (s *Set) jobRule(upstream, tool string) *rule {
	if len(s.jobs) == 0 {
		return nil
	}
	for _, r := range s.candidatesFor(upstream, tool) {
		if r.decision.makesJobs() {
			return r
		}
	}
	return nil
}
