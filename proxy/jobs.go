package proxy

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"taskgate/policy"
	"taskgate/wire"
)

// A job is the task of a client that declares no tasks, where policy says
// undeclared: jobs. The gateway declares the extension in the client's place, puts
// the handle into words, and lists tools by which the client reaches the task.
// Below this it is a task like any other.

// hasTasks tells a client that knows tasks.
func (x *exchange) hasTasks() bool {
	return x.meta.Capabilities.DeclaresTasks() || x.hasTasks2025()
}

// hasTasks2025 tells a client that knows those of its own revision.
func (x *exchange) hasTasks2025() bool { return x.asks && x.meta.Capabilities.DeclaresTasks2025() }

// mayBeJob tells whether a call that does not declare the extension can become a
// job.
func (x *exchange) mayBeJob(d policy.Decision) bool {
	return d.Undeclared == policy.Jobs && !x.hasTasks2025() && x.front.takenJobTool() == ""
}

// asJob makes a call one that can become a job, where it can. Until it is one, its
// questions go out as those of a held call.
func (x *exchange) asJob(d policy.Decision) (policy.Decision, bool) {
	if x.meta.Capabilities.DeclaresTasks() || !x.mayBeJob(d) {
		return d, false
	}
	x.meta.Capabilities = wire.ParseCapabilities(x.meta.Capabilities.WithTasks())
	d.Input = policy.InputMRTR
	return d, true
}

// takenJobTool is a name that jobs need and that is one of the upstream's own tools.
// It stays that; calls at this endpoint are then held. "": there is none.
func (r *route) takenJobTool() string {
	names := policy.JobTools(r.JobPrefix)
	if i := slices.IndexFunc(names, r.tools.lists); i >= 0 {
		return names[i]
	}
	return ""
}

// offersJobs tells whether calls at the endpoint can become jobs.
func (h *Handler) offersJobs(r *route) bool {
	if r.joined != nil {
		return slices.ContainsFunc(r.joined.members, h.offersJobs)
	}
	return h.opts.OffersJobs(r.Name)
}

// listForJobs makes a page of tools/list the one that clients without tasks get: its
// last page has the tools for jobs, if a call of any of the others can become one.
func (h *Handler) listForJobs(ctx context.Context, x *exchange, result wire.Raw) wire.Raw {
	if !h.offersJobs(x.route) {
		return result
	}
	list, _ := wire.ParseObject(result) // it is one: it was made
	tools, err := wire.ParseArray(list.Get("tools"))
	if err != nil {
		return result
	}
	list = list.With("cacheScope", wire.Raw(`"private"`)) // it depends on who asks
	if x.hasTasks() {
		return list.Bytes()
	}
	h.withoutSchemas(x.route, tools)
	if _, more := wire.String(list.Get("nextCursor")); !more && h.listsJobTools(ctx, x) {
		tools = append(tools, jobDefinitions(x.route.JobPrefix)...)
	}
	return list.With("tools", wire.JoinArray(tools)).Bytes()
}

// listsJobTools tells whether the list of an upstream has the tools for jobs.
func (h *Handler) listsJobTools(ctx context.Context, x *exchange) bool {
	if !x.route.tools.isWhole() { // the pages before have passed another replica
		if _, err := h.listAll(ctx, x.as(x.route, "tools/list"), listings[0]); err != nil {
			h.opts.Log.Warn("not all tools could be looked at for jobs", zap.String("upstream", x.route.Name), zap.Error(err))
		}
	}
	return x.route.takenJobTool() == "" && slices.ContainsFunc(x.route.tools.list(), func(t Tool) bool { return h.opts.MakesJobs(x.route.Name, t.Name) })
}

// withoutSchemas takes outputSchema off the tools of an upstream whose calls can
// become jobs, since the answer that says so does not keep to it. It tells whether
// there are such tools.
func (h *Handler) withoutSchemas(r *route, tools []wire.Raw) (jobs bool) {
	for i, raw := range tools {
		tool, _ := wire.ParseObject(raw)
		if name, _ := wire.String(tool.Get("name")); h.opts.MakesJobs(r.Name, name) {
			tools[i], jobs = tool.Without("outputSchema").Bytes(), true
		}
	}
	return jobs
}
