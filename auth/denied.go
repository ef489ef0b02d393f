package auth

import (
	"errors"
	"net/http"
)

// ErrNone is returned by an Authenticator when a request carries no credential
// of its kind.
var ErrNone = errors.New("no credential of this kind")

// Denied says that a request does not get in. Its text is for the client: it
// never holds a part of a credential.
type Denied struct {
	// Status is the HTTP status: 401 when nobody vouches for the caller, 403 when
	// the caller is known and may not.
	Status int
	// Code is the error of RFC 6750, section 3.1; "" when there was no credential.
	Code string
	// Reason says what is wrong, in printable ASCII without quotes.
	Reason string
	// Scopes are those that the request needs, with status 403.
	Scopes []string
}

func (d *Denied) Error() string {
	if d.Status == http.StatusForbidden {
		return "Forbidden: " + d.Reason
	}
	return "Unauthorized: " + d.Reason
}

func invalidToken(reason string) *Denied {
	return &Denied{Status: http.StatusUnauthorized, Code: "invalid_token", Reason: reason}
}

// TooShort is the refusal of a credential that is good but ends too soon for
// what it was sent with.
func TooShort(reason string) *Denied { return invalidToken(reason) }

// UnavailableError says that a credential cannot be judged right now. It is the
// fault of neither the caller nor the credential.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return "identity cannot be checked: " + e.Err.Error() }
func (e *UnavailableError) Unwrap() error { return e.Err }
