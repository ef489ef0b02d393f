package upstream

import (
	"context"
	"crypto/rand"
	"net/http"
	"strconv"
	"sync/atomic"

	"taskgate/wire"
)

// line carries messages to a server and back. Streamable HTTP gives each request
// a stream of its own; on a channel the messages of all calls are mixed.
type line interface {
	// exchange sends a request. Its outcome is the response, after every other
	// message that belongs to it was handed to receive. When ctx ends first, the
	// server is told, and the error wraps ctx.Err(); all others are *Error.
	exchange(ctx context.Context, out outgoing, receive func(wire.Message)) underway[answer]
	// post sends a message that wants no response: a notification or an answer.
	post(ctx context.Context, m wire.Message, header http.Header) error
	// overhear hands to e what the server says on its own account in the session,
	// until ctx ends or the line breaks. agreed is called once it listens. The
	// error is errDeaf when the server never says anything.
	overhear(ctx context.Context, e *ear, agreed func()) error
	// hangUp ends the session.
	hangUp(ctx context.Context, s *session)
}

// outgoing is a request to be sent.
type outgoing struct {
	id     wire.Raw
	method string
	params wire.Object
	header http.Header // of HTTP, to which the line adds its own
	// abandon tells the upstream that nobody waits any more, before the stream
	// is closed. nil: the line says so in its own way.
	abandon func()
	// seen gets each event of the response stream; may be nil.
	seen func(wire.Event)
}

// message is the request as a message.
func (out *outgoing) message() wire.Message {
	return wire.Message{ID: out.id, Method: out.method, Params: out.params.Bytes()}
}

// answer is the response to a request.
type answer struct {
	Reply
	status  int    // HTTP status; 0: there is none
	named   bool   // it carries the request's id
	whole   bool   // nothing comes after it
	session string // the Mcp-Session-Id that came with it
}

// ownIDs are those of requests that are the connector's own: strings, so that
// they are none of the callers' numbers, and of this connector alone, because an
// upstream may still know requests of an earlier one in the same session.
type ownIDs struct {
	name  string
	count atomic.Uint64
}

func newOwnIDs() *ownIDs { return &ownIDs{name: rand.Text()[:8]} }

func (ids *ownIDs) next() wire.Raw {
	return wire.Quote(ids.name + "-" + strconv.FormatUint(ids.count.Add(1), 10))
}
