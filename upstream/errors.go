package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.uber.org/zap"
)

// Error is a call without a response.
type Error struct {
	Kind ErrorKind
	// MayHaveRun is false only when the upstream cannot have acted on the
	// request: it may then be sent again (contract 7). When it is true the
	// error wraps ErrOutcomeUnknown.
	MayHaveRun bool
	// Status is the HTTP status, 0 when there was none.
	Status int
	// Size and Limit, in bytes, belong to TooLarge. Size is what is known of
	// the answer's size: all of it when it was announced, else what was read.
	Size, Limit int64
	Err         error
}

// ErrorKind says what went wrong.
type ErrorKind string

// Kinds of Error.
const (
	Unreachable  ErrorKind = "unreachable"  // no connection
	TimedOut     ErrorKind = "timed_out"    // no answer to initialize or server/discover in time
	Unauthorized ErrorKind = "unauthorized" // 401 or 403
	Refused      ErrorKind = "refused"      // another HTTP error without a JSON-RPC body
	Broken       ErrorKind = "broken"       // the answer broke off or never was one
	TooLarge     ErrorKind = "too_large"    // the answer is over the limit
	Incompatible ErrorKind = "incompatible" // no protocol version in common
	Full         ErrorKind = "full"         // all sessions that are allowed are in use
	Closed       ErrorKind = "closed"       // the Caller was closed
)

func (e *Error) Error() string {
	if e.MayHaveRun {
		return fmt.Sprintf("upstream %s: %v: %v", e.Kind, ErrOutcomeUnknown, e.Err)
	}
	return fmt.Sprintf("upstream %s: %v", e.Kind, e.Err)
}

func (e *Error) Unwrap() []error {
	if e.MayHaveRun {
		return []error{ErrOutcomeUnknown, e.Err}
	}
	return []error{e.Err}
}

// ErrOutcomeUnknown is wrapped by errors of calls that may have run.
var ErrOutcomeUnknown = errors.New("outcome unknown")

func broken(status int, format string, args ...any) *Error {
	return &Error{Kind: Broken, MayHaveRun: true, Status: status, Err: fmt.Errorf(format, args...)}
}

func tooLarge(status int, size, limit int64) *Error {
	return &Error{Kind: TooLarge, MayHaveRun: true, Status: status, Size: size, Limit: limit,
		Err: fmt.Errorf("the answer has %d bytes or more, the limit is %d", size, limit)}
}

// during names the step that failed before the request itself was sent: for
// the request, whatever happened in that step, nothing can have run.
func during(step string, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", step, err)
	}
	before := *e
	before.MayHaveRun = false
	before.Err = fmt.Errorf("%s: %w", step, e.Err)
	return &before
}

// refusal is an HTTP error without a JSON-RPC error in it.
type refusal struct {
	status int
	body   string // its beginning
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("HTTP %d %s", r.status, http.StatusText(r.status))
	if excerpt := strings.TrimSpace(r.body); excerpt != "" {
		return fmt.Sprintf("%s: %.200q", text, excerpt)
	}
	return text
}

// unread returns the refusal in err when the request was refused unread, else
// nil. An error about a call that may have run can have a refusal in it too:
// of something that was sent while it ran.
func unread(err error) *refusal {
	if err == nil {
		return nil
	}
	var e *Error
	var r *refusal
	if errors.As(err, &e) && !e.MayHaveRun && errors.As(err, &r) {
		return r
	}
	return nil
}

// wrongEndpoint tells a refusal that suggests that the server, if it is one,
// does not speak the protocol that it was spoken to in.
func wrongEndpoint(err error) bool {
	r := unread(err)
	return r != nil && wrongEndpointStatus(r.status)
}

func wrongEndpointStatus(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// LogError is an error for the log. What an upstream wrote stays out of it: it
// may repeat what was sent, or be what only the client may see.
func LogError(err error) zap.Field {
	var up *Error
	if !errors.As(err, &up) {
		return zap.Error(err)
	}
	switch up.Kind {
	case Unreachable, TimedOut, TooLarge, Full, Closed:
		return zap.Error(err)
	}
	return zap.String("error", fmt.Sprintf("upstream %s (HTTP status %d)", up.Kind, up.Status))
}

func refused(status int, body []byte) *Error {
	kind := Refused
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		kind = Unauthorized
	}
	return &Error{Kind: kind, MayHaveRun: !refusedUnread(status), Status: status, Err: &refusal{status, string(body)}}
}

// refusedUnread tells the statuses by which a server says that it has not
// acted on a request. Others may come from something between us and a server
// that is still at it.
func refusedUnread(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusProxyAuthRequired, http.StatusLengthRequired,
		http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusMisdirectedRequest, http.StatusUpgradeRequired, http.StatusTooManyRequests,
		http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return false
}
