package proxy

import (
	"context"
	"net/http"
	"strings"
	"time"

	"taskgate/auth"
	"taskgate/policy"
	"taskgate/taskroute"
	"taskgate/wire"
)

// Visit is an HTTP request that was let in: where it goes and who sent it are
// known, and what it says is not looked at yet. It lets whoever serves another
// protocol in front ask on behalf of the visitor, as a client of 2026-07-28
// would, with no need to be let in again.
type Visit struct {
	h        *Handler
	route    *route
	front    *route // the endpoint; it is another than route when that is one of several
	identity auth.Identity
	header   http.Header
	peer     string
	asks     bool // the visitor speaks another protocol, and this is asked for it
	asTask   bool // a tools/call is to be a task from its beginning
	ttl      time.Duration
}

// Path is that of the endpoint.
func (v *Visit) Path() string { return v.route.Path }

// Principal names the visitor: equal for requests of the same caller.
func (v *Visit) Principal() string { return v.owner().String() }

func (v *Visit) owner() taskroute.Owner {
	return taskroute.Owner{Tenant: v.identity.Tenant, Subject: v.identity.Subject}
}

// Ask serves a request of 2026-07-28 on behalf of the visitor. Its answer, and
// what comes before that, is written to w as it would be to a client; the
// visitor's own headers say whether w takes a stream of events. When ctx ends,
// that client has gone.
func (v *Visit) Ask(ctx context.Context, w http.ResponseWriter, msg wire.Message) {
	x := &exchange{Visit: *v, msg: msg}
	x.header, x.asks = modernHeader(v.header, msg), true
	out := newResponder(w, x.header, &v.h.opts)
	out.id = msg.ID
	began := time.Now()
	if err := x.check(); err != nil {
		v.h.beginSpan(ctx, x, began)
		v.h.finish(ctx, out, x, nil, err)
		return
	}
	v.h.answer(ctx, x, out, began)
}

// AsTask is the visit of who wants a tools/call to be a task from its beginning, as
// clients of 2025-11-25 ask for it. ttl is how long it is wanted; 0, and more than
// policy grants: as policy says.
func (v *Visit) AsTask(ttl time.Duration) *Visit {
	out := *v
	out.asTask, out.ttl = true, ttl
	return &out
}

// wanted is the decision for a call that is to be a task from its beginning.
func (v *Visit) wanted(d policy.Decision) (policy.Decision, error) {
	if !v.asTask {
		return d, nil
	}
	if d.Task == policy.Forbidden {
		return d, wire.Errorf(wire.CodeMethodNotFound, "Method not found: this tool is not run as a task")
	}
	d.Task, d.PromoteAfter, d.Input = policy.Required, 0, policy.InputTask
	if v.ttl > 0 && (d.TTL == 0 || v.ttl < d.TTL) {
		d.TTL = v.ttl
	}
	return d, nil
}

// TaskSupport says whether the call of a tool may, or must, be a task, whatever its
// arguments are. msg is a tools/call whose params are the tool as it was listed.
func (v *Visit) TaskSupport(msg wire.Message) string {
	x := &exchange{Visit: *v, msg: msg}
	x.header, x.asks = modernHeader(v.header, msg), true
	if err := x.check(); err != nil {
		return string(policy.Forbidden)
	}
	if v.h.jobToolNamed(x) != nil {
		return string(policy.Forbidden)
	}
	if j := x.route.joined; j != nil {
		var err error
		if x.params, x.route, err = j.byName(x.params, "name"); err != nil {
			return string(policy.Forbidden)
		}
	}
	tool, _ := wire.String(x.params.Get("name"))
	facts, _ := x.route.tools.known(tool)
	d := v.h.opts.Decide(v.h.query(x, tool, facts))
	if d.Task == policy.Required && x.mayBeJob(d) { // which is another way
		return string(policy.Optional)
	}
	return string(d.Task)
}

// Abandon gives up a request that was answered with an InputRequiredResult of
// that requestState. One that is not the gateway's own has nothing running.
func (v *Visit) Abandon(ctx context.Context, state string) error {
	return v.h.runner.Abandon(ctx, v.owner(), state)
}

// modernHeader is h with the headers of msg instead of those that h may have.
func modernHeader(h http.Header, msg wire.Message) http.Header {
	out := http.Header{}
	for name, values := range h {
		if !strings.HasPrefix(name, "Mcp-") {
			out[name] = values
		}
	}
	params, _ := wire.ParseObject(msg.Params) // bad ones are refused where they are read
	wire.SetHeaders(out, msg.Method, params)
	return out
}

// isSessionMethod tells what only clients send that opened a session.
func isSessionMethod(req *http.Request) bool {
	return (req.Method == http.MethodGet || req.Method == http.MethodDelete) && req.Header.Get(wire.HeaderSession) != ""
}

// isLegacy tells a message that opens, or belongs to, a session of 2025-11-25 or
// earlier. The body decides before the headers do: some of those clients send
// Mcp-Method too.
func (x *exchange) isLegacy() bool {
	v := x.header.Get(wire.HeaderVersion)
	switch {
	case v == wire.Version || wire.IsModern(x.msg.Params):
		return false
	case x.header.Get(wire.HeaderSession) != "" || x.msg.Method == "initialize":
		return true
	}
	return v != "" && v < wire.Version && v[0] == '2'
}
