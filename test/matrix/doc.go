// Package matrix leads clients that others wrote, through the gateway, to servers
// that others wrote, and keeps the table of docs/compatibility.md.
//
// A step that does not work must have its reason in reasons.yaml, and a reason
// that is no longer needed is as wrong as a step that fails.
package matrix
