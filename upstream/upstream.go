// Package upstream reaches the servers behind the gateway, over HTTP or as
// programs on their standard streams, of either era. A Caller hides era, transport
// and sessions; what it hands back is as raw as it came.
package upstream

import (
	"context"
	"net/http"

	"taskgate/wire"
)

// Request is one request toward an upstream.
type Request struct {
	// ID is ours (contract 2), unique among the running requests and not 0; the
	// client's id is not known here.
	ID uint64
	// Method and Params are the client's. Params may carry _meta; the connector
	// takes the reserved members out and puts its own in.
	Method string
	Params wire.Object
	// ClientInfo and Capabilities are those of the calling client.
	ClientInfo   wire.Raw
	Capabilities wire.Capabilities
	// LogLevel is the level the client asked for on this request, or "".
	LogLevel string
	// Principal keys sessions: callers of one key may share a session.
	Principal string
	// Header is sent along (Mcp-Param-* and what configuration allows).
	Header http.Header
}

// Reply is the upstream's response: exactly one of Result and Error.
type Reply struct {
	Result wire.Raw
	Error  wire.Raw
	// Undeclared is a capability, as a ClientCapabilities object, that a legacy
	// upstream has asked for during the call although the client had not
	// declared it; nil when there was none. The question was refused.
	Undeclared wire.Raw
	// Streamed: it came as an event of a stream, not as JSON.
	Streamed bool
}

// Handler receives what an upstream sends while a call runs. Its methods may be
// called from several goroutines and, but for Ask, must not block.
type Handler interface {
	// Progress gets the params of a notifications/progress, without the token.
	Progress(params wire.Object)
	// Notify gets any other notification that belongs to the call.
	Notify(method string, params wire.Raw)
	// Ask gets a server-to-client request of this very call (contract 9) and
	// returns the client's result, or the error to send. It blocks until then
	// or until ctx, which ends with the call or when the upstream withdraws the
	// request; what it returns after that is dropped.
	Ask(ctx context.Context, q Question) (wire.Raw, *wire.Error)
}

// Question is a server-to-client request.
type Question struct {
	// ID is the upstream's own name for it, unique within the call.
	ID string
	// Method and Params are the request's. Both are empty for a question that
	// was out when the call was left, and of which no more than the ID is known
	// to Resume.
	Method string
	Params wire.Raw
}

// Keeper is a Handler that can keep what it takes to find its call again.
type Keeper interface {
	Handler
	// Keep gets a token for Resume that is good from now on, in place of the
	// one before. It must not block.
	Keep(token wire.Raw)
}

// Starter is a Handler that wants to know when its request goes out. What comes
// before, such as the start of a process or a session, is not the call's own time.
type Starter interface {
	Handler
	// Started may be called more than once. It must not block.
	Started()
}

func started(h Handler) {
	if s, ok := h.(Starter); ok {
		s.Started()
	}
}

// Info is what an upstream says of itself.
type Info struct {
	Capabilities wire.Raw // ServerCapabilities as it was sent
	ServerInfo   wire.Raw // nil when it did not say
	Instructions wire.Raw // nil when it did not say; a JSON string
	Modern       bool
	// Deaf: it announces changes, maybe, but has no stream to tell of them.
	Deaf bool
}

// Caller is one upstream.
type Caller interface {
	// Call sends one request and returns its response. When ctx ends first, the
	// upstream is told so in its own way, and the error wraps ctx.Err().
	// Other errors are *Error.
	Call(ctx context.Context, r Request, h Handler) (Reply, error)
	// Send is Call in two steps, for who has many calls that take long.
	Send(ctx context.Context, r Request, h Handler) Pending[Reply]
	// Resume goes on with a call that another Call, maybe of another process, has
	// sent: r is the same but for its ID, and token the last that its Handler was
	// to keep. Questions that are out are asked again under the IDs they had.
	// Errors are as those of Call.
	Resume(ctx context.Context, token wire.Raw, r Request, h Handler) (Reply, error)
	// Info asks the upstream what it is. Errors are as those of Call.
	Info(ctx context.Context) (Info, error)
	// Listen hears what the upstream says on its own account, from now until
	// the subscription is closed. ctx bounds the wait for the upstream's word on
	// what it honours. Errors are *Error, of kind Full or Closed: an upstream
	// that cannot be reached is tried again.
	Listen(ctx context.Context, r ListenRequest) (*Subscription, error)
	// Close ends subscriptions, refuses new calls, waits for the running ones
	// until ctx ends, and ends idle sessions and what else is open. A session
	// with running calls stays.
	Close(ctx context.Context) error
}
