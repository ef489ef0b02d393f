package proxy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"taskgate/audit"
	"taskgate/policy"
	"taskgate/taskroute"
	"taskgate/wire"
)

// jobMethod answers the call of a tool for jobs.
type jobMethod func(h *Handler, ctx context.Context, x *exchange, out *responder, id string) (wire.Raw, error)

// jobToolOf finds the tool for jobs that is called; nil: it is another tool. Whether
// it is one of the upstream's own is asked first where that is not known.
func (h *Handler) jobToolOf(ctx context.Context, x *exchange) *jobTool {
	t := h.jobToolNamed(x)
	if t == nil || x.route.joined != nil {
		return t
	}
	h.factsOf(ctx, x, x.route.JobPrefix+t.name)
	return h.jobToolNamed(x)
}

// jobToolNamed finds it by what is known of the upstream.
func (h *Handler) jobToolNamed(x *exchange) *jobTool {
	if x.msg.Method != "tools/call" || !h.offersJobs(x.route) {
		return nil
	}
	name, _ := wire.String(x.params.Get("name"))
	name, ok := strings.CutPrefix(name, x.route.JobPrefix)
	for i := range jobTools {
		if t := &jobTools[i]; ok && t.name == name && x.route.takenJobTool() == "" {
			return t
		}
	}
	return nil
}

// callJobTool makes the call of a tool for jobs a request about the task. What the
// caller can do something about is a result with isError, which models see.
func (h *Handler) callJobTool(ctx context.Context, x *exchange, out *responder, t *jobTool) (wire.Raw, error) {
	if _, err := x.wanted(policy.Decision{Task: policy.Forbidden}); err != nil {
		return nil, err
	}
	x.trail.Tool, x.msg.Method = x.route.JobPrefix+t.name, t.method
	args, _ := x.params.Object("arguments")
	id, _ := wire.String(args.Get("jobId"))
	if !taskroute.ValidID(id) {
		return x.jobFailed(wire.Errorf(wire.CodeInvalidParams, "arguments.jobId is missing or not the id of a job; write the one that the call was answered with")), nil
	}
	x.traceTask(id)
	result, err := t.answer(h, ctx, x, out, id)
	if mistake := new(wire.Error); errors.As(err, &mistake) {
		return x.jobFailed(mistake), nil
	}
	if isAboutTask(err) {
		return x.jobFailed(wireError(err)), nil
	}
	return result, err
}

func (x *exchange) jobFailed(rpc *wire.Error) wire.Raw {
	x.trail.Outcome, x.trail.Code = audit.Failed, rpc.Code
	return toolError(rpc.Message)
}

// jobStatus is tasks/get in words.
func (h *Handler) jobStatus(ctx context.Context, x *exchange, _ *responder, id string) (wire.Raw, error) {
	rec, err := h.pollTask(ctx, x, id)
	if err != nil {
		return nil, err
	}
	return toolText(x.jobText(rec)).With("structuredContent", stateOf(rec)).Bytes(), nil
}

// answerable are the questions of a job that this client can be asked.
func (x *exchange) answerable(rec *taskroute.Record) (questions wire.Object) {
	for _, q := range rec.Wire().Inputs {
		o, _ := wire.ParseObject(q.Value) // the record's own
		if method, _ := wire.String(o.Get("method")); x.meta.Capabilities.Answers(method, o.Get("params")) == nil {
			questions = questions.With(q.Name, q.Value)
		}
	}
	return questions
}

// How long job_result waits, in seconds. Many clients give up after 60.
const (
	usualWait   = 10
	longestWait = 50
)

func readWait(args wire.Object) (time.Duration, error) {
	raw := args.Get("wait")
	if raw == nil || string(raw) == "null" {
		return usualWait * time.Second, nil
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || seconds < 0 || seconds > longestWait {
		return 0, wire.Errorf(wire.CodeInvalidParams, "arguments.wait must be a number of seconds from 0 to %d", longestWait)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// jobResult waits for the end of a task and answers as the call would have been. A
// question of the task becomes one of this call, which its answer comes back with
// (basic/patterns/mrtr).
func (h *Handler) jobResult(ctx context.Context, x *exchange, out *responder, id string) (wire.Raw, error) {
	args, _ := x.params.Object("arguments")
	wait, err := readWait(args)
	if err != nil {
		return nil, err
	}
	if x.params.Get("inputResponses") != nil {
		x.msg.Method = "tasks/update"
		if err := h.answerTask(ctx, x, id); err != nil {
			return nil, err
		}
	}
	defer out.holdOpen().Stop()
	rec, err := h.awaitTask(ctx, x, id, wait)
	if err != nil {
		return nil, err
	}
	questions := x.answerable(rec)
	switch {
	case rec.State.Status == taskroute.Completed:
		return rec.Outcome.Result, nil
	case rec.State.Status == taskroute.Failed:
		return nil, &upstreamFailure{rec.Outcome.Error}
	case rec.State.Status == taskroute.Cancelled:
		return toolError(x.jobText(rec)), nil
	case len(questions) > 0:
		return wire.Object{}.With("resultType", wire.Quote(wire.ResultInputRequired)).With("inputRequests", questions.Bytes()).Bytes(), nil
	}
	return toolText(x.jobText(rec)).Bytes(), nil // whose structuredContent is that of the call only
}

// awaitTask reads a task until there is more to tell of it than that it runs, or
// for as long as somebody wants to wait.
func (h *Handler) awaitTask(ctx context.Context, x *exchange, id string, wait time.Duration) (*taskroute.Record, error) {
	watch := h.runner.Watch(id)
	defer watch.Stop()
	rec, err := h.pollTask(ctx, x, id)
	if err != nil || wait == 0 || x.concludes(rec) {
		return rec, err
	}
	done, err := h.quotas.stream(x.owner())
	if err != nil {
		return nil, err
	}
	defer done()
	over := time.NewTimer(wait)
	defer over.Stop()
	recheck := time.NewTicker(h.opts.Recheck)
	defer recheck.Stop()
	for !x.concludes(rec) {
		select {
		case <-watch.Changed():
		case <-recheck.C:
		case <-over.C:
			return rec, nil
		case <-h.closing:
			return rec, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		switch newer, err := h.runner.Get(ctx, x.owner(), id); {
		case err == nil:
			rec = newer
		case isAboutTask(err):
			return nil, err
		} // else the store is away, and may be back at the next look
	}
	h.quotas.polled(rec)
	return rec, nil
}

// concludes tells a state of a job that nobody waits in.
func (x *exchange) concludes(rec *taskroute.Record) bool {
	return rec.State.Status.Terminal() || len(x.answerable(rec)) > 0
}

// jobCancel is tasks/cancel, with what has become of the job.
func (h *Handler) jobCancel(ctx context.Context, x *exchange, _ *responder, id string) (wire.Raw, error) {
	if err := h.runner.Cancel(ctx, x.owner(), id); err != nil {
		return nil, storeError(err)
	}
	rec, err := h.runner.Get(ctx, x.owner(), id)
	if err != nil {
		return nil, storeError(err)
	}
	text := x.jobText(rec)
	if !rec.State.Status.Terminal() {
		text = fmt.Sprintf("Job %s (%s) is being cancelled.", rec.ID, rec.State.Tool)
	}
	return toolText(text).With("structuredContent", stateOf(rec)).Bytes(), nil
}
