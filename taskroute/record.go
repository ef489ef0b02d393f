// Package taskroute holds what was promised to clients: one durable record for
// every task, found by its id (the Mcp-Name of tasks/*) and its owner, never by
// a connection, a session or a process. Records change only through their
// transition methods and reach the disk only through Store.
package taskroute

import (
	"reflect"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"taskgate/wire"
)

// Status of a record. The values are those of SEP-2663.
type Status string

// Statuses. The last three are terminal: nothing changes them.
const (
	Working       Status = wire.StatusWorking
	InputRequired Status = wire.StatusInputRequired
	Completed     Status = wire.StatusCompleted
	Failed        Status = wire.StatusFailed
	Cancelled     Status = wire.StatusCancelled
)

// Terminal tells a status that is final.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Owner is the principal that created a record.
type Owner struct {
	Tenant  string `json:"tenant"`
	Subject string `json:"subject"`
}

// Kind tells what the client was told.
type Kind string

const (
	// Task: the client has a handle and reaches the record by tasks/*.
	Task Kind = "task"
	// Held: the client has an InputRequiredResult whose sealed requestState
	// names the record; tasks/* do not know it.
	Held Kind = "held"
)

// Record is one running or finished call. It is divided as it is stored: State
// is small and read by every tasks/get, Input is there once the upstream has
// asked, Outcome once the call has ended, Request only for who runs the call
// again. The zero value of a part means "not loaded" or "none yet".
type Record struct {
	ID       string
	Revision uint64 // set by Store; what compare-and-swap compares
	State    State
	Input    Input
	Outcome  Outcome
	Request  Request

	dirty partSet
	tell  string // see Doc.Tell
}

// Unknown holds the members of a stored part that this version does not know: a
// newer one wrote them, next to which it runs while replicas are replaced one by
// one. They are written again as they were.
type Unknown = jsontext.Value

// State is the small part.
type State struct {
	// Format is newer than this version's when the record was written by one that
	// an older must leave alone; see ErrNewer.
	Format int `json:"format,omitempty"`

	Owner         Owner         `json:"owner"`
	Shared        bool          `json:"shared,omitempty"` // a task: with the owner's whole tenant
	Kind          Kind          `json:"kind"`
	Status        Status        `json:"status"`
	StatusMessage string        `json:"statusMessage,omitempty"`
	CreatedAt     time.Time     `json:"createdAt"`
	UpdatedAt     time.Time     `json:"updatedAt"`
	TTL           time.Duration `json:"ttl"` // from CreatedAt; 0: unlimited
	PollInterval  time.Duration `json:"pollInterval"`

	Upstream string `json:"upstream"`
	Tool     string `json:"tool"`

	// Holder is the replica incarnation that runs the upstream call; "" when
	// there is nothing to run: terminal, or parked on a modern upstream's
	// question, where whoever gets the last answer goes on.
	Holder string `json:"holder,omitempty"`
	// Epoch counts holders. A write by a holder whose epoch is over fails.
	Epoch int64 `json:"epoch"`
	// Attempts counts how often the request went out to the upstream.
	Attempts int `json:"attempts"`
	// CancelledAt is when the owner asked for cancellation; zero: never.
	CancelledAt time.Time `json:"cancelledAt,omitzero"`
	// Rounds counts the questions so far; it makes input keys unique.
	Rounds int `json:"rounds,omitempty"`
	// Resume is the connector's token for finding the running call again; nil
	// when it cannot be.
	Resume wire.Raw `json:"resume,omitempty"`

	Unknown Unknown `json:",embed"`
}

// ExpiresAt is when the record may be forgotten; zero: never.
func (s State) ExpiresAt() time.Time {
	if s.TTL == 0 {
		return time.Time{}
	}
	return s.CreatedAt.Add(s.TTL)
}

// Expired tells whether the record's time is over.
func (s State) Expired(now time.Time) bool {
	at := s.ExpiresAt()
	return !at.IsZero() && !now.Before(at)
}

// Input is what the upstream asked and what the client answered.
type Input struct {
	Questions []Question `json:"questions,omitempty"`
	// State is a modern upstream's own requestState, echoed on the retry.
	State string `json:"state,omitempty"`
	// HasState tells an empty requestState from none.
	HasState bool `json:"hasState,omitempty"`
	// Deadline is when a parked record's questions are answered without the
	// client; zero: never.
	Deadline time.Time `json:"deadline,omitzero"`
	// Ticket is what the next retry of a held call must present.
	Ticket string `json:"ticket,omitempty"`

	Unknown Unknown `json:",embed"`
}

// isZero tells that nothing was asked so far, and nothing need be stored.
func (in Input) isZero() bool { return reflect.ValueOf(in).IsZero() }

// Question is one server-to-client request of the upstream.
type Question struct {
	// Key is ours and unique for the record's life.
	Key string `json:"key"`
	// UpstreamKey is the key a modern upstream used; "" for a legacy one,
	// whose running call waits for the answer.
	UpstreamKey string `json:"upstreamKey,omitempty"`
	// UpstreamID names the question of a running call at the upstream.
	UpstreamID string   `json:"upstreamId,omitempty"`
	Method     string   `json:"method"`
	Params     wire.Raw `json:"params,omitempty"`
	Answer     wire.Raw `json:"answer,omitempty"`
	// Withdrawn: the upstream no longer wants the answer.
	Withdrawn bool `json:"withdrawn,omitempty"`

	Unknown Unknown `json:",embed"`
}

// Pending tells a question that still wants an answer.
func (q Question) Pending() bool { return q.Answer == nil && !q.Withdrawn }

// Outcome is how the call ended: exactly one of the two, or neither for a
// cancelled one.
type Outcome struct {
	Result wire.Raw
	Error  wire.Raw
}

// Request is what it takes to send the call (again).
type Request struct {
	// Method is "" for tools/call.
	Method string   `json:"method,omitempty"`
	Params wire.Raw `json:"params,omitempty"`
	// ClientInfo and Capabilities are those of the creating request.
	ClientInfo   wire.Raw `json:"clientInfo,omitempty"`
	Capabilities wire.Raw `json:"capabilities,omitempty"`
	// Headers are the request headers that travel on (Mcp-Param-*).
	Headers map[string][]string `json:"headers,omitempty"`
	// Decision is the frozen policy decision, written by package policy.
	Decision wire.Raw `json:"decision,omitempty"`
	// Origin names the span of the creating request, as a traceparent; "": it had
	// none.
	Origin string `json:"origin,omitempty"`
}

// Wire is what a client may see of the record.
func (r *Record) Wire() wire.Task {
	s := r.State
	t := wire.Task{
		ID: r.ID, Status: string(s.Status), StatusMessage: s.StatusMessage,
		CreatedAt: s.CreatedAt, LastUpdatedAt: s.UpdatedAt, TTL: s.TTL, PollInterval: s.PollInterval,
		Result: r.Outcome.Result, Error: r.Outcome.Error,
	}
	if s.Status == InputRequired {
		t.Inputs = r.PendingInputs()
	}
	return t
}

// PendingInputs are the questions that still want an answer, as inputRequests.
func (r *Record) PendingInputs() wire.Object {
	var o wire.Object
	for _, q := range r.Input.Questions {
		if q.Pending() {
			o = o.With(q.Key, q.request())
		}
	}
	return o
}

// request is the question as an input request. It always has params: go-sdk 1.8.0
// takes one without, as roots/list often is, for broken JSON and fails the call.
func (q Question) request() wire.Raw {
	params := q.Params
	if params == nil {
		params = wire.Raw(`{}`)
	}
	return wire.Object{}.With("method", wire.Quote(q.Method)).With("params", params).Bytes()
}
