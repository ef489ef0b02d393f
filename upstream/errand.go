package upstream

import (
	"context"
	"net/http"

	"taskgate/wire"
)

// errand sends a request of the connector's own in a session.
func (l *legacy) errand(ctx context.Context, s *session, header http.Header, method string, params wire.Object) (answer, error) {
	return s.line.exchange(ctx, outgoing{
		id: l.ids.next(), method: method, params: params,
		header: s.headers(header),
	}, func(wire.Message) {}).outcome(ctx)
}

// errand sends a request about a task on behalf of the caller of r.
func (d *modern) errand(ctx context.Context, r Request, method string, params wire.Object) (answer, error) {
	own := Request{ID: handshakeID, Method: method, Params: params, ClientInfo: r.ClientInfo,
		Capabilities: r.Capabilities, Principal: r.Principal, Header: r.Header}
	return d.send(ctx, d.ids.next(), &own, true, func(wire.Message) {}).outcome(ctx)
}
