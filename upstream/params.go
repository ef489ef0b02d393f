package upstream

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"taskgate/wire"
)

// reservedPrefix is that of the _meta keys which only the modern protocol has.
const reservedPrefix = "io.modelcontextprotocol/"

// legacyParams takes out what only the modern protocol has, puts the progress
// token in and leaves every other byte alone.
func legacyParams(r Request) (wire.Raw, error) {
	params, meta, err := takeApart(r.Params)
	if err != nil {
		return nil, err
	}
	switch r.Method {
	case "tools/call", "prompts/get", "resources/read":
		params = params.Without("task", "inputResponses", "requestState")
	}
	var kept wire.Object
	for _, m := range meta {
		if !strings.HasPrefix(m.Name, reservedPrefix) {
			kept = append(kept, m)
		}
	}
	kept = kept.With(wire.MetaProgressToken, number(r.ID))
	return params.With("_meta", kept.Bytes()).Bytes(), nil
}

// modernParams puts in what each modern request says of its sender
// (basic/index#meta). tasks declares the extension, whether its caller did or not.
func modernParams(r Request, tasks bool) (wire.Object, error) {
	params, meta, err := takeApart(r.Params)
	if err != nil {
		return nil, err
	}
	capabilities := r.Capabilities.WithoutTasks()
	if tasks {
		capabilities = r.Capabilities.WithTasks()
	}
	meta = meta.With(wire.MetaVersion, wire.Quote(wire.Version)).
		With(wire.MetaCapabilities, capabilities)
	if r.ID != handshakeID {
		meta = meta.With(wire.MetaProgressToken, number(r.ID))
	}
	if r.ClientInfo != nil {
		meta = meta.With(wire.MetaClientInfo, r.ClientInfo)
	}
	if r.LogLevel != "" {
		meta = meta.With(wire.MetaLogLevel, wire.Quote(r.LogLevel))
	} else {
		meta = meta.Without(wire.MetaLogLevel)
	}
	return params.With("_meta", meta.Bytes()), nil
}

func takeApart(raw wire.Raw) (params, meta wire.Object, err error) {
	if raw != nil {
		if params, err = wire.ParseObject(raw); err != nil {
			return nil, nil, &Error{Kind: Refused, Err: fmt.Errorf("params: %w", err)}
		}
	}
	if m := params.Get("_meta"); m != nil {
		if meta, err = wire.ParseObject(m); err != nil {
			return nil, nil, &Error{Kind: Refused, Err: fmt.Errorf("params._meta: %w", err)}
		}
	}
	return params, meta, nil
}

func number(n uint64) wire.Raw { return strconv.AppendUint(nil, n, 10) }

// callHeader is what of the request's own headers goes out. What belongs to the
// connection, the body or the session is the connector's to set, and a legacy
// upstream does not know Mcp-Param-*.
func callHeader(r Request, era Era) http.Header {
	h := make(http.Header, len(r.Header)+4)
	copyHeader(h, r.Header)
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding",
		"Upgrade", "Host", "Content-Length", "Content-Encoding",
		wire.HeaderSession, wire.HeaderLastEvent, wire.HeaderVersion, wire.HeaderMethod, wire.HeaderName} {
		delete(h, name)
	}
	for name := range h {
		if era == Legacy && strings.HasPrefix(name, wire.HeaderParam) {
			delete(h, name)
		}
	}
	return h
}
