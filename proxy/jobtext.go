package proxy

import (
	"fmt"
	"math"
	"time"

	"taskgate/policy"
	"taskgate/taskroute"
	"taskgate/wire"
)

// toolText is the result of a tool that says something.
func toolText(text string) wire.Object {
	block := wire.Object{}.With("type", wire.Raw(`"text"`)).With("text", wire.Quote(text)).Bytes()
	return wire.Object{}.With("resultType", wire.Quote(wire.ResultComplete)).With("content", wire.JoinArray([]wire.Raw{block}))
}

func toolError(text string) wire.Raw { return toolText(text).With("isError", wire.Raw("true")).Bytes() }

// jobStarted is the answer to a call that goes on as a job.
func (x *exchange) jobStarted(rec *taskroute.Record) wire.Raw {
	prefix := x.front.JobPrefix
	text := fmt.Sprintf("Started as job %s, since the call takes longer. Ask %s for its state in %s, or call %s with {\"jobId\": %q}: it waits for the result. %s ends the job.",
		rec.ID, prefix+policy.JobStatus, pause(rec), prefix+policy.JobResult, rec.ID, prefix+policy.JobCancel)
	if at := rec.State.ExpiresAt(); !at.IsZero() {
		text += " The result is kept until " + at.UTC().Format(time.RFC3339) + "."
	}
	return toolText(text).With("structuredContent", stateOf(rec)).Bytes()
}

// stateOf is the state of a job: that of the task, under the names of jobs.
func stateOf(rec *taskroute.Record) wire.Raw {
	handle, _ := wire.ParseObject(rec.Wire().CreateResult()) // it was made just now
	o := wire.Object{}.With("jobId", handle.Get("taskId")).With("tool", wire.Quote(rec.State.Tool))
	return append(o, handle.Without("resultType", "taskId")...).Bytes()
}

// pause is how long to wait before asking again.
func pause(rec *taskroute.Record) string {
	return fmt.Sprintf("%.0f s", math.Ceil(rec.State.PollInterval.Seconds()))
}

// jobText says how a job is doing and what can be done now.
func (x *exchange) jobText(rec *taskroute.Record) string {
	text := fmt.Sprintf("Job %s (%s) ", rec.ID, rec.State.Tool)
	result := x.front.JobPrefix + policy.JobResult
	switch rec.State.Status {
	case taskroute.Working:
		text += "is working. Ask again in " + pause(rec) + "."
	case taskroute.InputRequired:
		if len(x.answerable(rec)) > 0 {
			text += "waits for the answer to a question. Call " + result + ", which asks the user."
		} else {
			text += "waits for the answer to a question that this client cannot be asked: it has not declared the capability (such as elicitation). Another client of the same caller can answer, or the job be cancelled."
		}
	case taskroute.Completed:
		text += "has completed. Call " + result + " for its result."
	case taskroute.Failed:
		text += "has failed: " + wire.ParseError(rec.Outcome.Error).Message
	case taskroute.Cancelled:
		text += "was cancelled and has no result."
	}
	if rec.State.StatusMessage != "" {
		text += "\n" + rec.State.StatusMessage
	}
	return text
}
