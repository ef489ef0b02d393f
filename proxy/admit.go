package proxy

import (
	"errors"
	"mime"
	"net/http"
	"time"

	"taskgate/audit"
	"taskgate/wire"
)

// exchange is one admitted message.
type exchange struct {
	Visit
	msg    wire.Message
	params wire.Object
	meta   wire.Meta // of requests
	trail  audit.Event
}

// admit lets a request in: path, Origin and Host, caller, size, envelope,
// protocol, headers, in this order. Nothing is allocated for a request before
// its caller is known. With an error the exchange is there as far as it got.
func (h *Handler) admit(w http.ResponseWriter, req *http.Request) (*exchange, error) {
	x, body, err := h.receive(w, req)
	if err != nil {
		leaveBody(w, req)
		return x, err
	}
	if isSessionMethod(req) {
		return x, nil
	}
	if err := x.decode(body); err != nil {
		return x, err
	}
	return x, h.checkDepth(body)
}

// checkDepth comes after the envelope, so that the refusal has the request's id.
func (h *Handler) checkDepth(body []byte) error {
	if depth := wire.Depth(body); depth > h.opts.MaxDepth {
		return badRequest(wire.Errorf(wire.CodeInvalidRequest, "Invalid request: the body nests %d deep; the limit is %d", depth, h.opts.MaxDepth).
			WithData(map[string]any{"reason": "too_deep", "limit": h.opts.MaxDepth}))
	}
	return nil
}

// leaveBody answers without waiting for a body that nobody wants any more: the
// connection ends with the answer.
func leaveBody(w http.ResponseWriter, req *http.Request) {
	if req.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}

func (h *Handler) receive(w http.ResponseWriter, req *http.Request) (*exchange, []byte, error) {
	r, err := h.routeOf(w, req)
	if err != nil {
		return nil, nil, err
	}
	x := &exchange{Visit: Visit{h: h, route: r, header: req.Header, peer: peer(req)}}
	if err := h.identify(x, req); err != nil || isSessionMethod(req) {
		return x, nil, err
	}
	body, err := h.readBody(w, req)
	return x, body, err
}

// routeOf wants a POST of JSON, from here, to an endpoint; within a session of
// an older client, GET and DELETE as well.
func (h *Handler) routeOf(w http.ResponseWriter, req *http.Request) (*route, error) {
	if err := h.opts.Guard.check(req); err != nil {
		return nil, err
	}
	r := h.routes[req.URL.Path]
	if r == nil {
		return nil, refuse(http.StatusNotFound, wire.CodeMethodNotFound, "No MCP endpoint at this path")
	}
	if isSessionMethod(req) {
		return r, nil
	}
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, refuse(http.StatusMethodNotAllowed, wire.CodeInvalidRequest, "Method not allowed: send each message as a POST")
	}
	if t, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, wire.CodeInvalidRequest, "Unsupported media type: Content-Type must be application/json")
	}
	return r, nil
}

// readBody reads at most the limit, within the time for it. The deadline is
// lifted afterwards: the answer may take an hour.
func (h *Handler) readBody(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	if req.ContentLength > h.opts.MaxBody {
		return nil, tooLarge(h.opts.MaxBody)
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(h.opts.BodyTimeout)) // not all servers can; then there is none
	body, err := wire.ReadAll(http.MaxBytesReader(w, req.Body, h.opts.MaxBody), req.ContentLength)
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, tooLarge(h.opts.MaxBody)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, wire.CodeParse, "Parse error: the body broke off or was too slow")
	}
	_ = rc.SetReadDeadline(time.Time{})
	return body, nil
}

func tooLarge(limit int64) error {
	return &refusal{http.StatusRequestEntityTooLarge, wire.Errorf(wire.CodeInvalidRequest, "Request too large: the limit is %d bytes", limit).
		WithData(map[string]any{"reason": "too_large", "limit": limit})}
}

// decode reads the envelope and, unless an older client sent it, holds it
// against the protocol and the headers.
func (x *exchange) decode(body []byte) error {
	var rpc *wire.Error
	if x.msg, rpc = wire.Decode(body); rpc != nil {
		return badRequest(rpc)
	}
	if x.isLegacy() {
		return nil
	}
	return x.check()
}

// check holds a message against the protocol and the headers.
func (x *exchange) check() error {
	if x.msg.IsResponse() {
		return refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "Invalid request: clients send requests only; answer questions with inputResponses")
	}
	if x.msg.IsNotification() {
		return nil
	}
	if x.msg.Params != nil {
		var err error
		if x.params, err = wire.ParseObject(x.msg.Params); err != nil {
			return refuse(http.StatusBadRequest, wire.CodeParse, "Parse error: params: "+err.Error())
		}
	}
	return x.checkProtocol()
}

var paramMembers = []string{"_meta", "name", "arguments", "uri", "taskId", "inputResponses", "requestState", "cursor", "notifications"}

func (x *exchange) checkProtocol() error {
	if got, want := x.params.ImpostorOf(paramMembers...); got != "" {
		return badRequest(wire.Errorf(wire.CodeInvalidRequest, "Invalid request: member %q of params could be taken for %q", got, want))
	}
	var rpc *wire.Error
	if x.meta, rpc = wire.ParseMeta(x.params); rpc != nil {
		return badRequest(rpc)
	}
	if rpc := wire.CheckHeaders(x.header, x.msg, x.params, x.meta.Version); rpc != nil {
		return badRequest(rpc)
	}
	if x.meta.Version != wire.Version {
		return unsupportedVersion(x.meta.Version)
	}
	return nil
}

func unsupportedVersion(requested string) error {
	return badRequest(wire.Errorf(wire.CodeUnsupportedVersion, "Unsupported protocol version: this endpoint speaks %s", wire.Version).
		WithData(map[string]any{"supported": []string{wire.Version}, "requested": requested}))
}
