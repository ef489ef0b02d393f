// Package auth says who is calling and what that caller may do here. A Chain
// asks its authenticators in order; the first that finds a credential of its
// kind decides. A Resource is what an OAuth 2.1 client learns of an endpoint.
package auth

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Principal is a caller: a subject within a tenant. Both are compared exactly.
type Principal struct {
	Tenant  string
	Subject string
}

// Anonymous is the one principal of a gateway that runs without identity.
var Anonymous = Principal{Tenant: "default", Subject: "anonymous"}

// maxName bounds a tenant and a subject, in bytes: both are part of store keys.
const maxName = 512

// check refuses a principal that nothing sensible can be compared, stored and
// logged by.
func (p Principal) check() error {
	if err := checkName("tenant", p.Tenant); err != nil {
		return err
	}
	return checkName("subject", p.Subject)
}

func checkName(what, name string) error {
	switch {
	case name == "":
		return invalidToken("the credential names no " + what)
	case len(name) > maxName:
		return invalidToken(fmt.Sprintf("the %s is longer than %d bytes", what, maxName))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return invalidToken("the " + what + " holds characters that a name cannot have")
	}
	return nil
}

// Identity is what a credential says of its bearer.
type Identity struct {
	Principal
	// Scopes are what the credential allows (RFC 6749, section 3.3), with those
	// that these imply.
	Scopes []string
	// Method is the kind of credential, as configuration calls it.
	Method string
	// Token is the access token that came with the request; "" when the caller
	// is known by something that no upstream may see.
	Token string
	// Expires is when the credential ends; zero: not known.
	Expires time.Time
}

// Require returns a *Denied with status 403 unless the identity has all scopes
// (MCP authorization, Runtime Insufficient Scope Errors).
func (id Identity) Require(scopes ...string) error {
	for _, s := range scopes {
		if !slices.Contains(id.Scopes, s) {
			return &Denied{Status: http.StatusForbidden, Code: "insufficient_scope", Reason: "this needs a scope that the credential does not have", Scopes: scopes}
		}
	}
	return nil
}
