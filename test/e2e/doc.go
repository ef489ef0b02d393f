// Package e2e starts the built gateway as a user would and looks at it from
// outside: over HTTP, through real clients and servers, by its logs and exit
// codes. Other black-box tests start the gateway with it, too.
package e2e
