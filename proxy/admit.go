package proxy

import (
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

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
	span   trace.Span
}

// admit lets a request in: path, Origin and Host, caller and its quota, size,
// envelope, protocol, headers, in this order. Nothing is allocated for a request before
// its caller is known. With an error the exchange is there as far as it got.
func (h *Handler) admit(w http.ResponseWriter, req *http.Request) (*exchange, error) {
	endAfterChunks(w, req)
	x, body, err := h.receive(w, req)
	if err != nil {
		h.leaveBody(w, req, err)
		return x, err
	}
	if isSessionMethod(req) {
		return x, nil
	}
	text := wire.Condense(body)
	depth, members := text.Shape()
	if members > h.opts.MaxMembers { // to find a name among many that is there twice takes long
		return x, misshapen("too_many_members", "the objects of the body have %d members; the limit is %d", members, h.opts.MaxMembers)
	}
	if err := x.decode(text); err != nil {
		return x, err
	}
	if depth > h.opts.MaxDepth { // now that the refusal has the request's id
		return x, misshapen("too_deep", "the body nests %d deep; the limit is %d", depth, h.opts.MaxDepth)
	}
	return x, nil
}

func misshapen(reason, format string, is, limit int) error {
	return badRequest(wire.Errorf(wire.CodeInvalidRequest, "Invalid request: "+format, is, limit).
		WithData(map[string]any{"reason": reason, "limit": limit}))
}

// leaveBody answers without waiting for a body that nobody wants any more: the
// connection ends with the answer. That of a caller who was merely too fast goes
// on, since opening one costs more than a request: net/http reads what is left,
// if it is not much.
func (h *Handler) leaveBody(w http.ResponseWriter, req *http.Request, err error) {
	switch {
	case errors.As(err, new(*overQuota)):
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.opts.BodyTimeout))
	case req.ContentLength != 0:
		w.Header().Set("Connection", "close")
	}
}

// endAfterChunks lets nothing follow a body in chunks on its connection. net/http
// does not say whether there was a length too, which whoever stands before us may
// have believed; what follows could then be a part of that body (RFC 9112, 6.1).
func endAfterChunks(w http.ResponseWriter, req *http.Request) {
	if req.ProtoMajor == 1 && len(req.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
}

func (h *Handler) receive(w http.ResponseWriter, req *http.Request) (*exchange, []byte, error) {
	r, err := h.routeOf(w, req)
	if err != nil {
		return nil, nil, err
	}
	x := &exchange{Visit: Visit{h: h, route: r, front: r, header: req.Header, peer: peer(req)}}
	if err := h.identify(x, req); err != nil {
		return x, nil, err
	}
	if err := h.quotas.request(x.owner(), h.opts.Now()); err != nil {
		return x, nil, err
	}
	if isSessionMethod(req) {
		return x, nil, nil
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
	return r, checkContent(req.Header)
}

// checkContent wants JSON as it is, so that nobody who looks at the body, here or
// before, takes it for something else.
func checkContent(h http.Header) error {
	if types := h.Values("Content-Type"); len(types) != 1 || types[0] != jsonType[0] && !isJSON(types[0]) {
		return refuse(http.StatusUnsupportedMediaType, wire.CodeInvalidRequest, "Unsupported media type: Content-Type must be application/json, once and in UTF-8")
	}
	if coding := strings.Join(h.Values("Content-Encoding"), ","); coding != "" && !strings.EqualFold(coding, "identity") {
		return refuse(http.StatusUnsupportedMediaType, wire.CodeInvalidRequest, "Unsupported content coding: send the body as it is, without Content-Encoding")
	}
	return nil
}

func isJSON(contentType string) bool {
	t, params, err := mime.ParseMediaType(contentType)
	charset := params["charset"]
	return err == nil && t == jsonType[0] && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

// readBody reads at most the limit, within the time for it. The deadline is
// lifted afterwards: the answer may take an hour.
func (h *Handler) readBody(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	if req.ContentLength > h.opts.MaxBody {
		return nil, tooLarge(h.opts.MaxBody)
	}
	from := req.Body // which ends where it was announced to, if it was
	if req.ContentLength < 0 {
		from = http.MaxBytesReader(w, from, h.opts.MaxBody)
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(h.opts.BodyTimeout)) // not all servers can; then there is none
	body, err := h.bodies.ReadAll(from, req.ContentLength)
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{})
		_ = req.Body.Close() // else net/http looks for more of it before the answer
		return body, nil
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, tooLarge(h.opts.MaxBody)
	}
	return nil, refuse(http.StatusBadRequest, wire.CodeParse, "Parse error: the body broke off or was too slow")
}

func tooLarge(limit int64) error {
	return &refusal{http.StatusRequestEntityTooLarge, wire.Errorf(wire.CodeInvalidRequest, "Request too large: the limit is %d bytes", limit).
		WithData(map[string]any{"reason": "too_large", "limit": limit})}
}

// decode reads the envelope and, unless an older client sent it, holds it
// against the protocol and the headers.
func (x *exchange) decode(text wire.Text) error {
	var rpc *wire.Error
	if x.msg, rpc = text.Decode(); rpc != nil {
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
	var rpc *wire.Error
	if x.params, rpc = x.msg.ParamsObject(); rpc != nil {
		return badRequest(rpc)
	}
	return x.checkProtocol()
}

func (x *exchange) checkProtocol() error {
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
