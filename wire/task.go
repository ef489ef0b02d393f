package wire

import (
	"strconv"
	"time"
)

// Task is what a client may see of a task (SEP-2663, Tasks). Result, Error and
// Inputs are written only in the status they belong to.
type Task struct {
	ID            string
	Status        string
	StatusMessage string
	CreatedAt     time.Time
	LastUpdatedAt time.Time
	TTL           time.Duration // 0: unlimited, written as null
	PollInterval  time.Duration // 0: not suggested
	Inputs        Object        // pending input requests by key
	Result        Raw
	Error         Raw
}

// The statuses of SEP-2663.
const (
	StatusWorking       = "working"
	StatusInputRequired = "input_required"
	StatusCompleted     = "completed"
	StatusFailed        = "failed"
	StatusCancelled     = "cancelled"
)

// CreateResult is the handle: the seed state without any payload.
func (t Task) CreateResult() Raw {
	return t.state(Object{}.With("resultType", Quote(ResultTask))).Bytes()
}

// Summary is the same for a list.
func (t Task) Summary() Raw { return t.state(Object{}).Bytes() }

// GetResult is the DetailedTask as tasks/get answers it.
func (t Task) GetResult() Raw {
	return t.detailed(Object{}.With("resultType", Quote(ResultComplete))).Bytes()
}

// Notification is the params object of notifications/tasks on the given
// subscription.
func (t Task) Notification(subscription Raw) Raw {
	meta := Object{}.With(MetaSubscriptionID, subscription).Bytes()
	return t.detailed(Object{}.With("_meta", meta)).Bytes()
}

func (t Task) detailed(o Object) Object {
	o = t.state(o)
	switch t.Status {
	case StatusInputRequired:
		return o.With("inputRequests", t.Inputs.Bytes())
	case StatusCompleted:
		return o.With("result", t.Result)
	case StatusFailed:
		return o.With("error", t.Error)
	}
	return o
}

func (t Task) state(o Object) Object {
	o = o.With("taskId", Quote(t.ID)).With("status", Quote(t.Status))
	if t.StatusMessage != "" {
		o = o.With("statusMessage", Quote(t.StatusMessage))
	}
	o = o.With("createdAt", timestamp(t.CreatedAt)).With("lastUpdatedAt", timestamp(t.LastUpdatedAt))
	if t.TTL == 0 {
		o = o.With("ttlMs", Raw("null"))
	} else {
		o = o.With("ttlMs", millis(t.TTL))
	}
	if t.PollInterval > 0 {
		o = o.With("pollIntervalMs", millis(t.PollInterval))
	}
	return o
}

func timestamp(t time.Time) Raw {
	return Quote(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

func millis(d time.Duration) Raw {
	return strconv.AppendInt(nil, max(d.Milliseconds(), 1), 10)
}
