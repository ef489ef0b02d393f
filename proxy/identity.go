package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"taskgate/auth"
	"taskgate/policy"
	"taskgate/upstream"
	"taskgate/wire"
)

// ForwardHeader is a client's header that an upstream gets, under the name As.
// With Keep its value is stored with a task.
type ForwardHeader struct {
	Name string
	As   string
	Keep bool
}

// ShortToken says what becomes of a call that may run longer than the token
// which its upstream gets of the client.
type ShortToken string

// Values of ShortToken; "" is ShortAllow.
const (
	ShortAllow  ShortToken = "allow"
	ShortWarn   ShortToken = "warn"
	ShortRefuse ShortToken = "refuse"
)

// identify says who sent the request and whether that caller may use the
// endpoint at all.
func (h *Handler) identify(x *exchange, req *http.Request) error {
	var err error
	if x.identity, err = h.opts.Identify(req, &x.route.Resource); err != nil {
		return err
	}
	return x.identity.Require(x.route.Resource.Scopes...)
}

// scopes are what any request needs that goes to the upstream by this endpoint.
func (x *exchange) scopes() []string {
	if x.front == x.route {
		return x.route.Resource.Scopes
	}
	return slices.Concat(x.front.Resource.Scopes, x.route.Resource.Scopes)
}

// authorize says whether the caller may make this call. The challenge names all
// scopes that it needs, so that one step-up is enough.
func (h *Handler) authorize(x *exchange, d policy.Decision) error {
	needed := slices.Concat(x.scopes(), d.Scopes)
	if err := x.identity.Require(needed...); err != nil {
		return err
	}
	return h.checkTokenLife(x, d)
}

// checkTokenLife looks at whether a call may outlive the token that is
// forwarded with it: what the gateway sends for it later would be refused.
func (h *Handler) checkTokenLife(x *exchange, d policy.Decision) error {
	short := x.route.ShortToken
	if short == "" || short == ShortAllow || x.identity.Expires.IsZero() {
		return nil
	}
	left := x.identity.Expires.Sub(h.opts.Now())
	if d.Timeout > 0 && d.Timeout <= left {
		return nil
	}
	if short == ShortRefuse {
		return auth.TooShort(fmt.Sprintf("the access token ends in %s, before the call has to", left.Round(time.Second)))
	}
	h.opts.Log.Warn("a call may outlive the token that it forwards", zap.String("upstream", x.route.Name),
		zap.String("rule", d.Rule), zap.Duration("tokenEndsIn", left), zap.Duration("timeout", d.Timeout))
	return nil
}

// untilExpired fires when the caller's credential ends; for one without an end,
// never.
func (x *exchange) untilExpired(now time.Time) *time.Timer {
	t := time.NewTimer(max(x.identity.Expires.Sub(now), 0))
	if x.identity.Expires.IsZero() {
		t.Stop()
	}
	return t
}

// onBehalf is the context of what is done for the caller: it carries what of
// the caller's credentials the upstream may get and no record keeps.
func (x *exchange) onBehalf(ctx context.Context) context.Context {
	c := &upstream.Credentials{Token: x.identity.Token, Expires: x.identity.Expires}
	for _, f := range x.route.Forward {
		if values := x.header.Values(f.Name); !f.Keep && len(values) > 0 {
			if c.Header == nil {
				c.Header = http.Header{}
			}
			c.Header[http.CanonicalHeaderKey(f.As)] = values
		}
	}
	return upstream.WithCredentials(ctx, c)
}

// keptHeaders are those that travel on and are stored with a task: Mcp-Param-*,
// which an intermediary must not drop (streamable-http, Server Behavior for
// Custom Headers), and what configuration says may be kept.
func (x *exchange) keptHeaders() http.Header {
	var out http.Header
	keep := func(name string, values []string) {
		if out == nil {
			out = http.Header{}
		}
		out[name] = values
	}
	for name, values := range x.header {
		if strings.HasPrefix(name, wire.HeaderParam) {
			keep(name, values)
		}
	}
	for _, f := range x.route.Forward {
		if values := x.header.Values(f.Name); f.Keep && len(values) > 0 {
			keep(http.CanonicalHeaderKey(f.As), values)
		}
	}
	return out
}

// identityError is the answer to a caller who is not let in; ok is false for
// errors of another kind.
func identityError(err error) (status int, rpc *wire.Error, ok bool) {
	var denied *auth.Denied
	if errors.As(err, &denied) {
		data := map[string]any{"reason": "unauthorized"}
		if denied.Code != "" {
			data["reason"] = denied.Code
		}
		if len(denied.Scopes) > 0 {
			data["scope"] = strings.Join(denied.Scopes, " ")
		}
		return denied.Status, wire.Errorf(wire.CodeInvalidRequest, "%s", denied.Error()).WithData(data), true
	}
	if errors.As(err, new(*auth.UnavailableError)) {
		return http.StatusServiceUnavailable, wire.Errorf(wire.CodeInternal, "Credentials cannot be checked right now; ask again").
			WithData(map[string]any{"reason": "identity_unavailable", "retriable": true}), true
	}
	return 0, nil, false
}

// challenge adds WWW-Authenticate to the answer of a caller who is not let in.
func challenge(out *responder, x *exchange, err error) {
	var denied *auth.Denied
	if x != nil && errors.As(err, &denied) && !out.streaming {
		out.w.Header().Set("WWW-Authenticate", x.front.Resource.Challenge(denied))
	}
}

// documents are the metadata of all endpoints by path (RFC 9728), and at the
// root those of the gateway as a whole, for clients that look nowhere else.
func documents(endpoints []Endpoint) map[string][]byte {
	docs := map[string][]byte{}
	var root auth.Resource
	for _, e := range endpoints {
		r := e.Resource
		if path := r.MetadataPath(); path != "" {
			docs[path] = r.Metadata()
			root.URL, root.Issuers, root.Name = r.Gateway, r.Issuers, "taskgate"
			root.Scopes = append(root.Scopes, r.Scopes...)
		}
	}
	slices.Sort(root.Scopes)
	root.Scopes = slices.Compact(root.Scopes)
	if path := root.MetadataPath(); path != "" && docs[path] == nil {
		docs[path] = root.Metadata()
	}
	return docs
}

// serveDocument answers a request for metadata, for which nobody has to prove
// anything.
func (h *Handler) serveDocument(w http.ResponseWriter, req *http.Request, doc []byte) {
	err := h.opts.Guard.check(req)
	h.leaveBody(w, req, err)
	if err == nil && req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		err = refuse(http.StatusMethodNotAllowed, wire.CodeInvalidRequest, "Method not allowed: metadata are read by GET")
	}
	if err != nil {
		h.finish(req.Context(), newResponder(w, req.Header, &h.opts), nil, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("Content-Length", strconv.Itoa(len(doc)))
	_, _ = w.Write(doc) // a client that is gone needs no answer
}
