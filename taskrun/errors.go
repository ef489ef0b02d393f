package taskrun

import (
	"errors"
	"time"

	"taskgate/reqcoord"
	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// reason is the data member of the errors made here.
type reason struct {
	Reason     string `json:"reason"`
	Retriable  bool   `json:"retriable"`
	HTTPStatus int    `json:"upstreamStatus,omitempty"`
	// RetryAfterMs is when to ask again, in milliseconds; 0: not known.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
	// Size and Limit are of an answer that was too large, in bytes. Size is what
	// is known of it: what was announced, or was read before giving up. Limit alone
	// is the one that was hit.
	Size  int64 `json:"size,omitempty"`
	Limit int64 `json:"limit,omitempty"`
}

// ErrStore: the store could not be asked, or did not say whether it has done
// what it was asked to. What is asked of a held call may be asked again.
var ErrStore = errors.New("task store")

// WireError is the JSON-RPC error for a call that ended without a response of
// its upstream. It is what a waiting client gets and what a failed task keeps.
func WireError(err error) *wire.Error {
	var up *upstream.Error
	if errors.As(err, &up) { // first: it may wrap what made an answer unreadable, which is no error of the client's
		return upstreamError(up)
	}
	var rpc *wire.Error
	if errors.As(err, &rpc) {
		return rpc
	}
	var busy *reqcoord.OverloadError
	if errors.As(err, &busy) {
		return internal(busy.Error(), reason{Reason: "overloaded", Retriable: true, RetryAfterMs: busy.RetryAfter.Milliseconds(), Limit: int64(busy.Limits.Concurrency)})
	}
	var over *taskroute.OverLimitError
	if errors.As(err, &over) {
		return internal(capitalized(over), overLimitReason(over.Limit))
	}
	switch {
	case errors.Is(err, errCancelled):
		return internal("The call was cancelled", reason{Reason: "cancelled"})
	case errors.Is(err, ErrBadState):
		return wire.Errorf(wire.CodeInvalidParams, "Invalid or expired requestState").WithData(reason{Reason: "invalid_request_state"})
	case errors.Is(err, ErrStore):
		return internal("The task store cannot be reached right now; ask again", reason{Reason: "store_unavailable", Retriable: true})
	case errors.Is(err, ErrTaskRequired):
		return wire.MissingCapability(wire.TasksRequired)
	case errors.Is(err, errTimeout):
		return internal("The upstream did not answer within the time that policy gives this tool; whether the tool has run is unknown", reason{Reason: "timeout"})
	case errors.Is(err, errInputTimeout):
		return internal("Nobody answered the upstream's question within the time that policy gives", reason{Reason: "input_timeout"})
	case errors.Is(err, errIdle):
		return internal("The upstream gave no sign of life for as long as policy lets this tool be silent; whether the tool has run is unknown", reason{Reason: "idle_timeout"})
	case errors.Is(err, errShutdown):
		return internal("The gateway shut down while the tool ran; whether it has run to its end is unknown", reason{Reason: "outcome_unknown"})
	case errors.Is(err, errHolderLost):
		return internal(capitalized(err), reason{Reason: "outcome_unknown"})
	}
	return internal("Internal error", reason{Reason: "internal"})
}

func overLimitReason(limit taskroute.Usage) reason {
	if limit.Open > 0 {
		return reason{Reason: "too_many_open_tasks", Retriable: true, Limit: int64(limit.Open)}
	}
	return reason{Reason: "too_much_stored", Retriable: true, Limit: limit.Bytes}
}

// overLimit tells that the owner has as much in the store as it may have.
func overLimit(err error) bool { return errors.As(err, new(*taskroute.OverLimitError)) }

func upstreamError(up *upstream.Error) *wire.Error {
	r := reason{Reason: "upstream_" + string(up.Kind), Retriable: !up.MayHaveRun, HTTPStatus: up.Status, Size: up.Size, Limit: up.Limit}
	if up.MayHaveRun && up.Kind == upstream.Broken {
		r.Reason = "outcome_unknown"
	}
	return internal(capitalized(up), r)
}

func internal(message string, r reason) *wire.Error {
	return wire.Errorf(wire.CodeInternal, "%s", message).WithData(r)
}

func capitalized(err error) string {
	s := err.Error()
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

// RetryAfter is when a call that was refused may be made again; 0: not known.
func RetryAfter(err error) time.Duration {
	var busy *reqcoord.OverloadError
	if errors.As(err, &busy) {
		return busy.RetryAfter
	}
	return 0
}

// NotStarted tells an error of a call that was refused for want of room, before
// anything was done for it.
func NotStarted(err error) bool {
	return errors.As(err, new(*reqcoord.OverloadError)) || overLimit(err)
}
