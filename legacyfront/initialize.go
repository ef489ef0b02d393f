package legacyfront

import (
	"net/http"
	"slices"

	"go.uber.org/zap"

	"taskgate/proxy"
	"taskgate/taskroute"
	"taskgate/wire"
)

// maxAgreed, in bytes, is how much capabilities and client info may be: both
// travel in the session id, which is a header of every request.
const maxAgreed = 2 << 10

// initialize opens a session (basic/lifecycle). It asks the modern front what
// the server can do and writes nothing.
func (f *Front) initialize(w http.ResponseWriter, req *http.Request, v *proxy.Visit, msg wire.Message) {
	s, rpc := f.agree(msg)
	if rpc != nil {
		writeJSON(w, http.StatusOK, wire.Failure(msg.ID, rpc))
		return
	}
	t := ask(req.Context(), v, s.modern(wire.Message{ID: msg.ID, Method: "server/discover"}), nil)
	if t.reply.Error != nil {
		t.answer().write(w, wire.Message{ID: msg.ID, Error: wire.LegacyError("initialize", t.reply.Error)})
		return
	}
	ctx, cancel := f.briefly(req.Context())
	defer cancel()
	id, err := f.sealer.seal(ctx, s.agreed, place(v))
	if err != nil {
		f.opts.Log.Warn("no session was opened", zap.Error(err))
		refuse(w, msg.ID, err)
		return
	}
	w.Header().Set(wire.HeaderSession, id)
	writeJSON(w, http.StatusOK, wire.Result(msg.ID, f.initialized(s, t.reply.Result)))
}

// agree reads what the client offers.
func (f *Front) agree(msg wire.Message) (*session, *wire.Error) {
	params, rpc := msg.ParamsObject()
	if rpc != nil {
		return nil, rpc
	}
	version, ok := wire.String(params.Get("protocolVersion"))
	if !ok {
		return nil, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.protocolVersion is missing or no string")
	}
	if !slices.Contains(versions, version) {
		version = wire.LegacyVersion
	}
	s := &session{agreed: agreed{
		ID: taskroute.NewID(), Version: version, Opened: f.opts.Now().Unix(),
		ClientInfo: clientInfo(params), Capabilities: capabilities(params, version),
	}}
	if len(s.ClientInfo)+len(s.Capabilities) > maxAgreed {
		return nil, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.capabilities and the name of the client are larger than %d bytes", maxAgreed)
	}
	return s, nil
}

// capabilities are the client's, less what its revision does not have.
func capabilities(params wire.Object, version string) wire.Raw {
	declared := wire.ParseCapabilities(params.Get("capabilities"))
	if version == wire.LegacyVersion { // which has tasks of its own
		return declared.WithoutExtension()
	}
	return declared.WithoutTasks()
}

// clientInfo is what identifies the client: its icons need not travel.
func clientInfo(params wire.Object) wire.Raw {
	info, _ := params.Object("clientInfo")
	out := wire.Object{}
	for _, name := range []string{"name", "title", "version"} {
		if value := info.Get(name); value != nil {
			out = out.With(name, value)
		}
	}
	return out.Bytes()
}

// initialized is the result of initialize, made of that of server/discover.
func (f *Front) initialized(s *session, discovered wire.Raw) wire.Raw {
	d, _ := wire.ParseObject(discovered) // the gateway's own
	meta, _ := d.Object("_meta")
	result := wire.Object{}.With("protocolVersion", wire.Quote(s.Version)).
		With("capabilities", f.serverCapabilities(s, d).Bytes()).
		With("serverInfo", meta.Get(wire.MetaServerInfo))
	if instructions := d.Get("instructions"); instructions != nil {
		result = result.With("instructions", instructions)
	}
	return result.Bytes()
}

// serverCapabilities are those of the server, less the tasks of SEP-2663: a
// client of this era is never given one.
func (f *Front) serverCapabilities(s *session, discovered wire.Object) wire.Object {
	caps, _ := discovered.Object("capabilities")
	for _, m := range f.opts.Extend(s.Version).Capabilities {
		caps = caps.With(m.Name, m.Value)
	}
	extensions, _ := caps.Object("extensions")
	if extensions = extensions.Without(wire.TasksExtension); len(extensions) == 0 {
		return caps.Without("extensions")
	}
	return caps.With("extensions", extensions.Bytes())
}
