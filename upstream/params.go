package upstream

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"taskgate/wire"
)

// reservedPrefix is that of the _meta keys which only the modern protocol has.
const reservedPrefix = "io.modelcontextprotocol/"

// legacyParams takes out what only the modern protocol has, puts the progress
// token in and leaves every other byte alone.
func legacyParams(r Request) (wire.Object, error) {
	params := r.Params
	meta, err := metaOf(params)
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
	return params.With("_meta", kept.Bytes()), nil
}

var quotedVersion = wire.Quote(wire.Version)

// modernParams puts in what each modern request says of its sender
// (basic/index#meta). tasks declares the extension, whether its caller did or not.
func modernParams(r *Request, tasks bool) (wire.Object, error) {
	meta, err := metaOf(r.Params)
	if err != nil {
		return nil, err
	}
	capabilities := r.Capabilities.WithoutTasks()
	if tasks {
		capabilities = r.Capabilities.WithTasks()
	}
	says := append(make([]wire.Member, 0, 5), wire.Member{Name: wire.MetaVersion, Value: quotedVersion},
		wire.Member{Name: wire.MetaCapabilities, Value: capabilities})
	if r.ID != handshakeID {
		says = append(says, wire.Member{Name: wire.MetaProgressToken, Value: number(r.ID)})
	}
	if r.ClientInfo != nil {
		says = append(says, wire.Member{Name: wire.MetaClientInfo, Value: r.ClientInfo})
	}
	if r.LogLevel != "" {
		says = append(says, wire.Member{Name: wire.MetaLogLevel, Value: wire.Quote(r.LogLevel)})
	} else {
		meta = meta.Without(wire.MetaLogLevel)
	}
	meta = meta.WithAll(says...)
	return r.Params.With("_meta", meta.Bytes()), nil
}

func metaOf(params wire.Object) (wire.Object, error) {
	if params.Get("_meta") == nil {
		return nil, nil
	}
	meta, ok := params.Object("_meta")
	if !ok {
		return nil, &Error{Kind: Refused, Err: errors.New("params._meta: not an object")}
	}
	return meta, nil
}

func number(n uint64) wire.Raw { return strconv.AppendUint(nil, n, 10) }

// callHeader is what of the request's own headers goes out. What belongs to the
// connection, the body or the session is the connector's to set, and a legacy
// upstream does not know Mcp-Param-*.
func callHeader(of http.Header, era Era) http.Header {
	h := ownHeader(of)
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
