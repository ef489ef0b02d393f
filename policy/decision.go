// Package policy decides, from policy files alone, what becomes of a call.
package policy

import "time"

// Mode says whether a call may, or must, become a task. The words are those
// that tool authors know from 2025-11-25's execution.taskSupport.
type Mode string

// Modes.
const (
	Forbidden Mode = "forbidden" // always synchronous
	Optional  Mode = "optional"  // synchronous first, a task when it is slow or asks
	Required  Mode = "required"  // a task at once; -32021 for who did not declare the extension
)

// InputMode says where an upstream's questions go.
type InputMode string

// Input modes.
const (
	InputTask InputMode = "task" // into the task, which the question creates
	InputMRTR InputMode = "mrtr" // out as an InputRequiredResult, before there is a task
)

// Decision is what policy says of one call. It is frozen into the record
// (contract 11) as JSON.
type Decision struct {
	Task         Mode          `json:"task"`
	PromoteAfter time.Duration `json:"promoteAfter"` // 0: a task at once
	Timeout      time.Duration `json:"timeout"`      // of the upstream call; 0: none
	TTL          time.Duration `json:"ttl"`          // from creation; 0: unlimited
	PollInterval time.Duration `json:"pollInterval"`
	Input        InputMode     `json:"input"`

	Rule   string `json:"rule"`   // the rule's name, or "defaults"
	Source string `json:"source"` // file:line of the rule
}

// Query is what a decision is made from.
type Query struct {
	Upstream string
	Tool     string
}
