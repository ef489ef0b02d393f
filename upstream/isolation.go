package upstream

import (
	"crypto/sha256"
)

// Isolation says who may share a session of an upstream that has sessions, or a
// process of a program.
type Isolation string

// Kinds of isolation. In each, only callers that announce the same capabilities
// share, for those are what a session announces to its server (contract 9).
const (
	Shared       Isolation = "shared"    // all callers
	PerPrincipal Isolation = "principal" // the calls of one principal
	PerCall      Isolation = "call"      // nobody
)

// sessionKey says who may share a session.
type sessionKey struct {
	principal    string
	call         uint64 // the only one that may; 0: others may too
	era          Era    // a session of one era is of no use to another
	capabilities [sha256.Size]byte
}

// keyOf is the key under PerPrincipal.
func keyOf(r Request) sessionKey {
	return sessionKey{era: Legacy, principal: r.Principal, capabilities: sha256.Sum256(r.Capabilities.Interactive())}
}

// key is that of the session for a request. One that is no call, to listen or to
// learn what the server is, has no id and shares with its like.
func (i Isolation) key(r Request) sessionKey {
	key := keyOf(r)
	switch i {
	case Shared:
		key.principal = ""
	case PerCall:
		key.call = r.ID
	}
	return key
}

// mayAsk tells requests during which a server may ask the caller back: those that
// 2026-07-28 lets ask (basic/patterns/mrtr), by a caller that can be asked.
func (r Request) mayAsk() bool {
	return asksBack(r.Method) && string(r.Capabilities.Interactive()) != "{}"
}

// asksBack tells the methods; tasks/result stands for the call that made the task.
func asksBack(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read", "tasks/result":
		return true
	}
	return false
}
