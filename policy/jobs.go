package policy

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
	if !s.jobs {
		return false
	}
	for _, r := range s.rules {
		if r.decision.makesJobs() && r.upstream.matches(upstream) {
			return true
		}
	}
	return s.fallback.decision.makesJobs()
}

// MakesJobs tells whether calls of the tool can become jobs, whatever their
// arguments and callers are.
func (s *Set) MakesJobs(upstream, tool string) bool { return s.jobRule(upstream, tool) != nil }

// jobRule is the first rule by which calls of the tool can become jobs; nil: none.
func (s *Set) jobRule(upstream, tool string) *rule {
	if !s.jobs {
		return nil
	}
	for _, r := range s.candidatesFor(upstream, tool) {
		if r.decision.makesJobs() {
			return r
		}
	}
	return nil
}
