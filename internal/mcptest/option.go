package mcptest

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"taskgate/wire"
)

// Option changes one request of a Client, mostly for the worse.
type Option func(*send)

// send is one request in the making.
type send struct {
	id     wire.Raw
	method string
	params wire.Object
	meta   wire.Object
	body   []byte // replaces what the members above give
	header http.Header

	onHeader       func(*http.Response)
	onNotification func(wire.Message)
}

// WithHeader sets a header instead of the right one. No values: without it;
// several: several times.
func WithHeader(name string, values ...string) Option {
	return func(s *send) { s.header[http.CanonicalHeaderKey(name)] = values }
}

// WithMeta sets a member of params._meta; nil takes it out.
func WithMeta(name string, value wire.Raw) Option {
	return func(s *send) {
		if s.meta = s.meta.Without(name); value != nil {
			s.meta = s.meta.With(name, value)
		}
	}
}

// WithoutMeta leaves _meta out.
func WithoutMeta() Option { return func(s *send) { s.meta = nil } }

// WithCapabilities declares others than the client's.
func WithCapabilities(capabilities string) Option {
	return WithMeta(wire.MetaCapabilities, wire.Raw(capabilities))
}

// WithProgress asks for progress under a token.
func WithProgress(token wire.Raw) Option { return WithMeta(wire.MetaProgressToken, token) }

// WithID sets the request's id; nil makes it a notification.
func WithID(id wire.Raw) Option { return func(s *send) { s.id = id } }

// WithBody sends a body as it is. The headers stay those of the method.
func WithBody(body []byte) Option { return func(s *send) { s.body = body } }

// OnHeader gets the response as soon as its header is there.
func OnHeader(f func(*http.Response)) Option { return func(s *send) { s.onHeader = f } }

// OnNotification gets notifications while the call runs.
func OnNotification(f func(wire.Message)) Option { return func(s *send) { s.onNotification = f } }

func newSend(c *Client, method string, params wire.Raw) *send {
	o, _ := wire.ParseObject(params)
	meta, ok := o.Object("_meta")
	if !ok {
		meta = wire.Object{}
	}
	s := &send{id: strconv.AppendInt(nil, c.lastID.Add(1), 10), method: method, params: o.Without("_meta"), header: c.Header.Clone()}
	s.meta = meta.With(wire.MetaVersion, wire.Quote(wire.Version)).
		With(wire.MetaClientInfo, wire.Raw(`{"name":"mcptest","version":"1"}`)).
		With(wire.MetaCapabilities, c.Capabilities)
	s.header.Set("Content-Type", "application/json")
	s.header.Set("Accept", "application/json, text/event-stream")
	s.header.Set(wire.HeaderVersion, wire.Version)
	s.header.Set(wire.HeaderMethod, method)
	for _, member := range mirrored(method) {
		if name, ok := wire.String(o.Get(member)); ok {
			s.header.Set(wire.HeaderName, wire.EncodeHeader(name))
		}
	}
	return s
}

// mirrored is the member of params that Mcp-Name repeats.
func mirrored(method string) []string {
	switch method {
	case "tools/call", "prompts/get":
		return []string{"name"}
	case "resources/read":
		return []string{"uri"}
	case "tasks/get", "tasks/update", "tasks/cancel":
		return []string{"taskId"}
	}
	return nil
}

func (s *send) request(ctx context.Context, c *Client) (*http.Request, error) {
	body := s.body
	if body == nil {
		params := s.params
		if s.meta != nil {
			params = params.With("_meta", s.meta.Bytes())
		}
		body = wire.Message{ID: s.id, Method: s.method, Params: params.Bytes()}.Bytes()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = s.header
	return r, nil
}
