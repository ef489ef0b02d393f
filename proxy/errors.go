package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"taskgate/auth"
	"taskgate/taskroute"
	"taskgate/taskrun"
	"taskgate/wire"
)

// refusal is an error whose HTTP status does not follow from its code.
type refusal struct {
	status int
	rpc    *wire.Error
}

func (e *refusal) Error() string { return e.rpc.Error() }

func refuse(status, code int, message string) error {
	return &refusal{status, &wire.Error{Code: code, Message: message}}
}

func badRequest(rpc *wire.Error) error { return &refusal{http.StatusBadRequest, rpc} }

// upstreamFailure is an error object that an upstream sent: it goes out as it
// came.
type upstreamFailure struct{ raw wire.Raw }

func (e *upstreamFailure) Error() string { return "upstream: " + wire.ParseError(e.raw).Error() }

// storeFailure: the store could not be asked. Nothing was done.
type storeFailure struct{ err error }

func (e *storeFailure) Error() string { return "store: " + e.err.Error() }
func (e *storeFailure) Unwrap() error { return e.err }

// answerError is the one place where an error becomes an answer.
//
// An error that says what an upstream did, or may have done, goes out with
// status 200: meshes re-send a POST on 5xx, and that would run the tool twice.
// 429 and 503 are for requests that have had no effect.
func answerError(err error) (status int, rpc wire.Raw) {
	var r *refusal
	if errors.As(err, &r) {
		return r.status, r.rpc.Raw()
	}
	var over *overQuota
	if errors.As(err, &over) {
		return http.StatusTooManyRequests, over.rpc().Raw()
	}
	if status, rpc, ok := identityError(err); ok {
		return status, rpc.Raw()
	}
	var up *upstreamFailure
	if errors.As(err, &up) {
		return statusOf(wire.ParseError(up.raw).Code), up.raw
	}
	e := wireError(err)
	if e.Code == wire.CodeInternal && taskrun.NotStarted(err) {
		return http.StatusTooManyRequests, e.Raw()
	}
	if errors.As(err, new(*storeFailure)) && e.Code == wire.CodeInternal {
		return http.StatusServiceUnavailable, e.Raw()
	}
	return statusOf(e.Code), e.Raw()
}

// retryAfter is when a request that was refused may be made again; 0: not known.
func retryAfter(err error) time.Duration {
	var over *overQuota
	if errors.As(err, &over) {
		return over.wait
	}
	return taskrun.RetryAfter(err)
}

// ending is how a request ends.
type ending struct {
	err    error // nil: with a result
	status int
	raw    wire.Raw   // the error of the answer
	rpc    wire.Error // the same, read; one of code 0 for a result
}

func endingOf(err error) ending {
	if err == nil {
		return ending{status: http.StatusOK}
	}
	status, raw := answerError(err)
	return ending{err, status, raw, *wire.ParseError(raw)}
}

// statusOf is the status that the protocol ties to a code.
func statusOf(code int) int {
	switch code {
	case wire.CodeMethodNotFound:
		return http.StatusNotFound
	case wire.CodeParse, wire.CodeInvalidRequest, wire.CodeHeaderMismatch, wire.CodeMissingCapability, wire.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func wireError(err error) *wire.Error {
	switch {
	case errors.Is(err, taskroute.ErrMalformed):
		return wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.taskId is not a task id of this server")
	case errors.Is(err, taskroute.ErrNotFound):
		return wire.Errorf(wire.CodeInvalidParams, "Invalid params: task not found")
	case errors.Is(err, taskroute.ErrExpired):
		return wire.Errorf(wire.CodeInvalidParams, "Invalid params: task has expired")
	case errors.Is(err, taskroute.ErrCursor):
		return wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.cursor is none that a list of tasks has ended with; leave it out to begin")
	case errors.Is(err, taskroute.ErrUnreadable):
		return wire.Errorf(wire.CodeInternal, "What is stored of the task cannot be read; its outcome is lost to this gateway").
			WithData(map[string]any{"reason": "task_unreadable", "retriable": false})
	case errors.As(err, new(*storeFailure)):
		return wire.Errorf(wire.CodeInternal, "The task store cannot be reached right now; the task is unharmed, ask again").
			WithData(map[string]any{"reason": "store_unavailable", "retriable": true})
	}
	if errors.Is(err, errForwardTimeout) {
		return wire.Errorf(wire.CodeInternal, "The upstream did not answer in time").WithData(map[string]any{"reason": "timeout"})
	}
	return taskrun.WireError(err)
}

// isOurFault tells errors that an operator should see.
func isOurFault(err error) bool {
	if errors.As(err, new(*refusal)) || errors.As(err, new(*overQuota)) || errors.As(err, new(*auth.Denied)) || errors.As(err, new(*upstreamFailure)) || errors.Is(err, context.Canceled) {
		return false
	}
	return wireError(err).Code == wire.CodeInternal
}
