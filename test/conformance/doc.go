// Package conformance runs the official MCP conformance suite through the
// gateway and compares its checks one by one.
//
// The suite alone is no judge of a gateway: it leaves out scenarios that it
// deems not applicable and exits with 0, it does not score the tasks scenarios,
// and a check that is not emitted at all looks like one that has passed. Hence
// a lane here says which checks must be there and must succeed.
package conformance
