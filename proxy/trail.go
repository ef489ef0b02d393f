package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"

	"taskgate/audit"
	"taskgate/auth"
	"taskgate/policy"
	"taskgate/taskrun"
	"taskgate/wire"
)

// A trail is what the audit log will say of an exchange; it is filled in as
// things become known.

func (x *exchange) traceDecision(tool string, d policy.Decision) {
	x.trail.Tool, x.trail.Rule, x.trail.Source = tool, d.Rule, d.Source
}

func (x *exchange) traceTask(id string) { x.trail.Task = audit.TaskHash(id) }

func (x *exchange) traceOutcome(o taskrun.Outcome) {
	switch {
	case o.Task != nil:
		x.trail.Outcome = audit.TaskMade
		x.traceTask(o.Task.ID)
	case o.Input != nil:
		x.trail.Outcome = audit.Asked
	}
}

// record writes the trail of an answered request down. A flood that the quota has
// kept off leaves none: nothing was done, and metrics count it.
func (h *Handler) record(x *exchange, end ending) {
	err := end.err
	if x == nil || h.opts.Audit == nil || err != nil && errors.As(err, new(*overQuota)) {
		return
	}
	e := x.trail
	denied, failed := err != nil && errors.As(err, new(*auth.Denied)), err != nil || e.Outcome == audit.Failed
	if !denied && (x.identity.Method == "" || !failed && reads(x.msg.Method) && !h.opts.AuditReads) {
		return
	}
	e.Time, e.Peer, e.Status = h.opts.Now(), x.peer, end.status
	e.Tenant, e.Subject, e.Identity = x.identity.Tenant, x.identity.Subject, x.identity.Method
	e.Upstream, e.Method = x.route.Name, wire.Label(x.msg.Method)
	switch {
	case denied:
		e.Outcome, e.Reason = audit.Denied, err.Error()
	case errors.Is(err, context.Canceled):
		e.Outcome = audit.Abandoned
	case err != nil:
		e.Outcome = audit.Failed
	case e.Outcome == "":
		e.Outcome = audit.Answered
	}
	if err != nil {
		e.Code = end.rpc.Code
	}
	h.opts.Audit.Record(e)
}

// reads tells methods that change nothing.
func reads(method string) bool {
	switch method {
	case "tools/call", "tasks/update", "tasks/cancel":
		return false
	}
	return true
}

func peer(req *http.Request) string {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		return req.RemoteAddr
	}
	return host
}
