package legacyfront

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"go.uber.org/zap"

	"taskgate/proxy"
	"taskgate/wire"
)

// request answers what the front answers itself, and has the modern front answer
// everything else.
func (f *Front) request(w http.ResponseWriter, req *http.Request, v *proxy.Visit, s *session, msg wire.Message) {
	if f.opts.Extend(s.Version).Methods[msg.Method] != nil {
		f.call(w, req, v, s, msg)
		return
	}
	var own func(context.Context, *proxy.Visit, *session, wire.Object) error
	switch msg.Method {
	case "ping":
		own = func(context.Context, *proxy.Visit, *session, wire.Object) error { return nil }
	case "logging/setLevel":
		own = f.setLevel
	case "resources/subscribe":
		own = f.subscribe
	case "resources/unsubscribe":
		own = f.unsubscribe
	case "server/discover", "subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel", "tasks/list": // of the new era, unless an extension has them
		own = unknown(msg.Method)
	default:
		f.call(w, req, v, s, msg)
		return
	}
	params, rpc := msg.ParamsObject()
	if rpc != nil {
		writeJSON(w, http.StatusOK, wire.Failure(msg.ID, rpc))
		return
	}
	f.reply(w, msg.ID, own(req.Context(), v, s, params))
}

// reply answers with an empty result, or with the error.
func (f *Front) reply(w http.ResponseWriter, id wire.Raw, err error) {
	switch e := err.(type) {
	case nil:
		writeJSON(w, http.StatusOK, wire.Result(id, wire.Raw(`{}`)))
	case *wire.Error:
		writeJSON(w, http.StatusOK, wire.Failure(id, e))
	default:
		f.opts.Log.Warn("the state of a session was not changed", zap.Error(err))
		refuse(w, id, err)
	}
}

func unknown(method string) func(context.Context, *proxy.Visit, *session, wire.Object) error {
	return func(_ context.Context, _ *proxy.Visit, s *session, _ wire.Object) error {
		return wire.Errorf(wire.CodeMethodNotFound, "Method not found: %s is not part of %s", method, s.Version)
	}
}

// defaultLevel is what a client gets that has set none.
const defaultLevel = "info"

func (st *state) level() string {
	if st.LogLevel == "" {
		return defaultLevel
	}
	return st.LogLevel
}

func (f *Front) setLevel(ctx context.Context, _ *proxy.Visit, s *session, params wire.Object) error {
	level, _ := wire.String(params.Get("level"))
	if !slices.Contains(wire.LogLevels, level) {
		return wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.level must be one of %s", wire.LogLevels)
	}
	return f.change(ctx, s, func(st *state) { st.LogLevel = level })
}

// maxURIs is how many resources a session may subscribe to.
const maxURIs = 1000

func (f *Front) subscribe(ctx context.Context, v *proxy.Visit, s *session, params wire.Object) error {
	uri, ok := wire.String(params.Get("uri"))
	if !ok {
		return wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.uri is missing or no string")
	}
	if !f.tellsOfUpdates(ctx, v, s) {
		return wire.Errorf(wire.CodeMethodNotFound, "Method not found: the server does not tell of updated resources")
	}
	if len(s.state.URIs) >= maxURIs {
		return wire.Errorf(wire.CodeInvalidParams, "Invalid params: the session is subscribed to %d resources, which is the limit", maxURIs)
	}
	return f.change(ctx, s, func(st *state) {
		if at, found := slices.BinarySearch(st.URIs, uri); !found {
			st.URIs = slices.Insert(st.URIs, at, uri)
		}
	})
}

// tellsOfUpdates asks the modern front what the server can do.
func (f *Front) tellsOfUpdates(ctx context.Context, v *proxy.Visit, s *session) bool {
	t := ask(ctx, v, s.modern(wire.Message{ID: wire.Quote("subscribe"), Method: "server/discover"}), nil)
	result, _ := wire.ParseObject(t.reply.Result)
	caps, _ := result.Object("capabilities")
	resources, _ := caps.Object("resources")
	return string(resources.Get("subscribe")) == "true"
}

func (f *Front) unsubscribe(ctx context.Context, _ *proxy.Visit, s *session, params wire.Object) error {
	uri, ok := wire.String(params.Get("uri"))
	if !ok {
		return wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.uri is missing or no string")
	}
	return f.change(ctx, s, func(st *state) {
		if at, found := slices.BinarySearch(st.URIs, uri); found {
			st.URIs = slices.Delete(st.URIs, at, at+1)
		}
	})
}

// modern is a message of the session as one of 2026-07-28: it says of itself what
// the session was told once.
func (s *session) modern(msg wire.Message) wire.Message {
	params, _ := wire.ParseObject(msg.Params) // none are an empty object
	meta, _ := params.Object("_meta")
	meta = meta.With(wire.MetaVersion, wire.Quote(wire.Version)).
		With(wire.MetaClientInfo, s.ClientInfo).
		With(wire.MetaCapabilities, s.Capabilities).
		With(wire.MetaLogLevel, wire.Quote(s.state.level()))
	msg.Params = params.With("_meta", meta.Bytes()).Bytes()
	return msg
}

func hasEnded(text []byte) bool {
	var st state
	return text != nil && json.Unmarshal(text, &st) == nil && st.Ended
}
