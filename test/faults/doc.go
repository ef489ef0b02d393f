// Package faults proves what docs/guarantees.md promises. Clients work with
// several gateways on one Redis while all of them are killed, frozen, cut off and
// restarted; what everybody did and saw goes into a History, and Check says what
// in it breaks a promise.
package faults
