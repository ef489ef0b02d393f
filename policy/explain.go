package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Passed is a rule that came before the one that decided.
type Passed struct {
	Rule   string
	Source string // file:line
	Why    string // why it does not match
}

// Value is an effective setting.
type Value struct {
	Field  string
	Text   string
	Origin Origin
}

// Limit is one of the time limits that a call meets.
type Limit struct {
	Name   string
	After  time.Duration // 0: there is none
	Effect string        // what happens then
	Ends   bool          // whether it ends the call, or makes its result unreachable
}

// Explanation says why a call is decided as it is, and what follows.
type Explanation struct {
	Query    Query
	Declared bool // whether the client declared the tasks extension
	Passed   []Passed
	Decision Decision
	Values   []Value
	Learned  []Learned // what follows from how long the tool takes; none when nothing does
	Limits   []Limit   // in the order in which a call meets them; none for a call that is refused
	Wire     []string
}

// Explain decides q like Decide and says why. declared tells whether the client
// declares the tasks extension; more are limits from elsewhere, such as the
// configuration, which the call meets on its way to the upstream.
func Explain(s *Set, q Query, declared bool, more ...Limit) Explanation {
	e := Explanation{Query: q, Declared: declared}
	winner := s.fallback
	f := &facts{query: q}
	for _, r := range s.rules {
		why := r.whyNot(f)
		if why == "" {
			winner = r
			break
		}
		e.Passed = append(e.Passed, Passed{r.name, r.source(), why})
	}
	e.Decision = winner.decision.at(q)
	e.Values, e.Learned = winner.values(), e.Decision.learned(q)
	if declared || e.Decision.Undeclared != Reject {
		e.Limits = slices.Concat(queueLimit(e.Decision), more, limitsOf(e.Decision, declared))
	}
	e.Wire = wireView(e.Decision, declared)
	return e
}

// whyNot says why a rule does not match; "" when it does.
func (r *rule) whyNot(f *facts) string {
	switch q := f.query; {
	case !r.upstream.matches(q.Upstream):
		return fmt.Sprintf("upstream %q does not match %q", r.upstream.text, q.Upstream)
	case !r.tool.matches(q.Tool):
		return fmt.Sprintf("tool %q does not match %q", r.tool.text, q.Tool)
	case r.when == nil:
		return ""
	}
	yes, err := r.when.holds(f)
	switch {
	case err != nil:
		return fmt.Sprintf("when cannot be evaluated (%v): %s", err, r.when.text)
	case !yes:
		return "when is false: " + r.when.text
	}
	return ""
}

// Smallest is the limit that ends a call first; ok is false when nothing does.
func (e Explanation) Smallest() (smallest Limit, ok bool) {
	for _, l := range e.Limits {
		if l.Ends && l.After > 0 && (!ok || l.After < smallest.After) {
			smallest, ok = l, true
		}
	}
	return smallest, ok
}

// NotSent is the effect of a limit that a call meets before it is sent.
const NotSent = "the client gets an error that says so, or its task fails, and nothing was sent"

// queueLimit is the limit of who waits for a turn under the rule.
func queueLimit(d Decision) []Limit {
	if d.Concurrency.Limit == 0 || d.Concurrency.Queue == 0 {
		return nil
	}
	return []Limit{{Name: "concurrency.wait", After: d.Concurrency.Wait, Effect: "without a turn among the calls of the rule for so long, " + NotSent, Ends: true}}
}

// limitsOf lists the time limits of a decision that hold from when the call is
// sent, or, for those of its task, made.
func limitsOf(d Decision, declared bool) []Limit {
	task, what := d.mayPromote(declared), "task"
	if !declared {
		what = "job"
	}
	ended := "the upstream call is cancelled and the client gets an error"
	var out []Limit
	if task {
		out = append(out, Limit{Name: "promoteAfter", After: d.PromoteAfter, Effect: "the client gets a " + what + "; its HTTP request ends"})
		ended = "the upstream call is cancelled and the " + what + " fails"
	}
	out = append(out,
		Limit{Name: "idleTimeout", After: d.IdleTimeout, Effect: "without a byte or progress for so long, " + ended, Ends: true},
		Limit{Name: "inputTimeout", After: d.InputTimeout.After, Effect: "a question without an answer: " + d.InputTimeout.Then.effect(), Ends: d.InputTimeout.Then == Fail},
		Limit{Name: "timeout", After: d.Timeout, Effect: ended, Ends: true},
	)
	if task {
		out = append(out, Limit{Name: "ttl", After: d.TTL, Effect: "counted from creation and extended while the work runs; then the " + what + " and its result are gone", Ends: true})
	}
	return out
}

func (i InputExpiry) effect() string {
	switch i {
	case Cancel:
		return "it is answered as if the user had closed the form"
	case Fail:
		return "the call fails"
	}
	return "it is declined"
}

// mayPromote tells whether the call can become a task, if under another name.
func (d Decision) mayPromote(declared bool) bool {
	return declared && d.Task != Forbidden || !declared && d.makesJobs()
}

// wireView says what the client sees.
func wireView(d Decision, declared bool) []string {
	switch {
	case !declared && d.Undeclared == Reject:
		return []string{
			"HTTP 400 and JSON-RPC error -32021; nothing reaches the upstream:",
			`{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`,
		}
	case !d.mayPromote(declared):
		return []string{
			"The answer of the tool, whenever it comes. The response is kept open with SSE comments and progress.",
			"A question of the upstream: an InputRequiredResult.",
		}
	}
	if !declared {
		return jobView(d)
	}
	return append(firstAnswer(d, "task", handle(d)), question(d), "Then tasks/get, tasks/update and tasks/cancel with the taskId.")
}

func jobView(d Decision) []string {
	const started = `{"resultType":"complete","content":[{"type":"text","text":"Started as job … "}],"structuredContent":{"jobId":"…","status":"working",…}}`
	return append(firstAnswer(d, "job", started),
		"A question of the upstream before there is a job: an InputRequiredResult; that of a job is asked by "+JobResult+".",
		"Then the tools "+strings.Join(JobTools(""), ", ")+" with the jobId, under the jobPrefix of the endpoint. tools/list adds them for such clients.")
}

func handle(d Decision) string {
	return fmt.Sprintf(`{"resultType":"task","taskId":"…","status":"working","createdAt":"…","lastUpdatedAt":"…","ttlMs":%s,"pollIntervalMs":%d}`, ttlMs(d.TTL), d.PollInterval.Milliseconds())
}

func firstAnswer(d Decision, what, handle string) []string {
	if d.PromoteAfter == 0 {
		return []string{"At once a " + what + ":", handle}
	}
	return []string{"The answer of the tool if it comes within " + short(d.PromoteAfter) + ", else a " + what + ":", handle}
}

func ttlMs(d time.Duration) string {
	if d == 0 {
		return "null"
	}
	return fmt.Sprint(d.Milliseconds())
}

func question(d Decision) string {
	if d.Input == InputMRTR {
		return "A question of the upstream before there is a task: an InputRequiredResult."
	}
	return "A question of the upstream: the task at once, with status input_required."
}
