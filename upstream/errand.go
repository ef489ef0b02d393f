package upstream

import (
	"context"
	"net/http"
	"strconv"

	"taskgate/wire"
)

// nextID is the id of a request that is the connector's own: a string, so that
// it is none of the callers' numbers, and of this connector alone, because an
// upstream may still know requests of an earlier one in the same session.
func (e *endpoint) nextID() wire.Raw {
	return wire.Quote(e.name + "-" + strconv.FormatUint(e.errands.Add(1), 10))
}

// errand sends a request of the connector's own in a session.
func (l *legacy) errand(ctx context.Context, s *session, header http.Header, method string, params wire.Object) (answer, error) {
	return l.endpoint.exchange(ctx, outgoing{
		message: wire.Message{ID: l.endpoint.nextID(), Method: method, Params: params.Bytes()},
		header:  s.headers(header),
	}, func(wire.Message) {})
}

// errand sends a request about a task on behalf of the caller of r.
func (d *modern) errand(ctx context.Context, r Request, method string, params wire.Object) (answer, error) {
	own := Request{ID: handshakeID, Method: method, Params: params, ClientInfo: r.ClientInfo,
		Capabilities: r.Capabilities, Principal: r.Principal, Header: r.Header}
	return d.send(ctx, d.endpoint.nextID(), own, true, func(wire.Message) {})
}
