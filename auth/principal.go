// Package auth says who is calling.
package auth

// Principal is a caller: a subject within a tenant. Both are compared exactly.
type Principal struct {
	Tenant  string
	Subject string
}

// Anonymous is the one principal of a gateway that runs without identity.
var Anonymous = Principal{Tenant: "default", Subject: "anonymous"}
