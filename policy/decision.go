package policy

import (
	"encoding/json"
	"time"
)

// Mode says whether a call may, or must, become a task. The words are those
// that tool authors know from 2025-11-25's execution.taskSupport.
type Mode string

// Modes.
const (
	Forbidden Mode = "forbidden" // always synchronous
	Optional  Mode = "optional"  // synchronous first, a task when it is slow or asks
	Required  Mode = "required"  // a task at once; -32021 for who did not declare the extension
)

// Values lists the modes.
func (Mode) Values() []string {
	return []string{string(Forbidden), string(Optional), string(Required)}
}

// InputMode says where an upstream's questions go.
type InputMode string

// Input modes.
const (
	InputTask InputMode = "task" // into the task, which the question creates
	InputMRTR InputMode = "mrtr" // out as an InputRequiredResult, before there is a task
)

// Values lists the input modes.
func (InputMode) Values() []string { return []string{string(InputTask), string(InputMRTR)} }

// InputTimeout limits how long a question waits for its answer.
type InputTimeout struct {
	// After is counted from the question; 0: as long as the task's other limits allow.
	After time.Duration `json:"after" yaml:"after"`
	Then  InputExpiry   `json:"then" yaml:"then"`
}

// SetDefaults is what a file gets that names only the other member.
func (t *InputTimeout) SetDefaults() { t.Then = Decline }

// InputExpiry says what becomes of a question that nobody answered in time.
type InputExpiry string

// Input expiries. An elicitation can be declined or cancelled; other questions
// get a JSON-RPC error instead.
const (
	Decline InputExpiry = "decline" // answered as if the user had said no
	Cancel  InputExpiry = "cancel"  // answered as if the user had closed the form
	Fail    InputExpiry = "fail"    // the task fails and the upstream call is cancelled
)

// Values lists the input expiries.
func (InputExpiry) Values() []string { return []string{string(Decline), string(Cancel), string(Fail)} }

// OnLoss says what becomes of a task whose replica died and whose upstream call
// could not be re-attached.
type OnLoss string

// Values of OnLoss.
const (
	LossFails  OnLoss = "fail"  // the task fails: its outcome is unknown
	LossReruns OnLoss = "rerun" // the call is sent again, up to MaxAttempts
)

// Values lists the crash rules.
func (OnLoss) Values() []string { return []string{string(LossFails), string(LossReruns)} }

// Undeclared says what a slow call's client gets that did not declare the tasks
// extension on its request.
type Undeclared string

// Values of Undeclared.
const (
	Hold   Undeclared = "hold"   // the call stays synchronous, however long it takes
	Reject Undeclared = "reject" // -32021 before anything reaches the upstream
	Jobs   Undeclared = "jobs"   // the task, told in words and reached by tools (JobStatus and the others)
)

// Values lists what undeclared clients can get.
func (Undeclared) Values() []string { return []string{string(Hold), string(Reject), string(Jobs)} }

// Share says who reaches a task.
type Share string

// Values of Share.
const (
	ShareOwner  Share = "owner"
	ShareTenant Share = "tenant" // everybody of the owner's tenant
)

// Values lists who can reach a task.
func (Share) Values() []string { return []string{string(ShareOwner), string(ShareTenant)} }

// Per says what a concurrency limit counts apart, within the calls of one rule.
type Per string

// Values of Per.
const (
	PerRule      Per = "rule"      // all calls of the rule together
	PerUpstream  Per = "upstream"  // each upstream on its own
	PerPrincipal Per = "principal" // each tenant and subject on its own
)

// Values lists what a limit can be counted per.
func (Per) Values() []string {
	return []string{string(PerRule), string(PerUpstream), string(PerPrincipal)}
}

// Concurrency limits the calls of a rule that run at once.
type Concurrency struct {
	Limit int `json:"limit" yaml:"limit"` // 0: no limit
	Queue int `json:"queue" yaml:"queue"` // how many more may wait; 0: none
	Per   Per `json:"per" yaml:"per"`
	// Wait is how long each may wait for its turn, which is no part of Timeout; 0:
	// as long as its client does, or its task lives.
	Wait time.Duration `json:"wait" yaml:"wait"`
}

// SetDefaults is what a file gets that leaves members out.
func (c *Concurrency) SetDefaults() { c.Per, c.Wait = PerRule, 5*time.Minute }

// DedupeKey is one part of what makes two calls the same.
type DedupeKey string

// Dedupe keys. Principal and tool are always among them.
const (
	ByPrincipal DedupeKey = "principal"
	ByTool      DedupeKey = "tool"      // upstream and tool
	ByArguments DedupeKey = "arguments" // in canonical form
)

// Values lists the dedupe keys.
func (DedupeKey) Values() []string {
	return []string{string(ByPrincipal), string(ByTool), string(ByArguments)}
}

// Dedupe joins a call to the same call that began a short while ago.
type Dedupe struct {
	By []DedupeKey `json:"by" yaml:"by"`
	// Within is counted from the first call; 0: nothing is joined.
	Within time.Duration `json:"within" yaml:"within"`
}

// SetDefaults is what a file gets that names only the other member.
func (d *Dedupe) SetDefaults() { d.By = []DedupeKey{ByPrincipal, ByTool, ByArguments} }

// Decision is what policy says of one call. It is frozen into the record
// (contract 11) as JSON, durations in nanoseconds; its form may only grow.
type Decision struct {
	Task         Mode          `json:"task"`
	PromoteAfter time.Duration `json:"promoteAfter"` // 0: a task at once
	Timeout      time.Duration `json:"timeout"`      // of the upstream call; 0: none
	IdleTimeout  time.Duration `json:"idleTimeout"`  // no byte and no progress for so long; 0: none
	TTL          time.Duration `json:"ttl"`          // from creation; 0: unlimited
	PollInterval time.Duration `json:"pollInterval"`
	Auto         Auto          `json:"auto"` // within which the two were learned
	Input        InputMode     `json:"input"`
	InputTimeout InputTimeout  `json:"inputTimeout"`
	OnLoss       OnLoss        `json:"onLoss"`
	MaxAttempts  int           `json:"maxAttempts"` // how often the call may be sent; 1 or more
	Concurrency  Concurrency   `json:"concurrency"`
	// Dedupe.By is shared between decisions and must not be changed.
	Dedupe     Dedupe     `json:"dedupe"`
	Undeclared Undeclared `json:"undeclared"`
	// Scopes are what the caller's credential must allow (RFC 6749, section 3.3),
	// beside those of the upstream. The slice is shared and must not be changed.
	Scopes []string `json:"scopes,omitempty"`
	Share  Share    `json:"share,omitempty"`

	learns learns

	Rule   string `json:"rule"`   // the rule's name, or "defaults"
	Source string `json:"source"` // file:line of the rule, or "built-in"
}

// Query is what a decision is made from. Only Upstream and Tool are needed; the
// rest is what a rule's `when` can see, and is looked at only by such rules.
type Query struct {
	Upstream string
	Tool     string

	// Arguments is params.arguments as it was received; nil: none.
	Arguments json.RawMessage
	// Annotations is the tool's annotations as the upstream lists them; nil:
	// none, or not known.
	Annotations json.RawMessage
	// TaskSupport is the tool's execution.taskSupport of 2025-11-25; "": none.
	TaskSupport string
	// Pace is how long the tool takes, for what policy lets follow from that. No
	// `when` sees it.
	Pace Pace
	// ClientInfo and Capabilities are those of this very request.
	ClientInfo   json.RawMessage
	Capabilities json.RawMessage
	Tenant       string
	Subject      string
	// Headers are the request headers that configuration lets policy see, under
	// lower-case names.
	Headers map[string]string
}
