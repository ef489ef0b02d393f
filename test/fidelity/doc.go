// Package fidelity proves that what clients and upstreams say to each other comes
// through the whole gateway byte for byte, but for the members that it is there
// to add and remove, and the white space in an answer that waits in a record: at once, held and as a task, out of each store, before
// upstreams of either era.
package fidelity
