package proxy

import (
	"strings"

	"taskgate/policy"
	"taskgate/wire"
)

// jobTool is one of the tools by which clients reach their jobs.
type jobTool struct {
	name   string // less the prefix of the endpoint
	method string // what it is of tasks
	answer jobMethod

	title, description string // with {} where the prefix belongs
	arguments          string // properties of its inputSchema beside jobId
	annotations        string
	stateful           bool // its structuredContent is the state of the job
}

var jobTools = [...]jobTool{
	{
		name: policy.JobStatus, method: "tasks/get", answer: (*Handler).jobStatus, stateful: true,
		title: "State of a job",
		description: "Says how a job is doing: a call of another tool that took long and was answered with a jobId. " +
			"Ask again only after the time that it names. {}job_result waits for the end instead.",
		annotations: `{"readOnlyHint":true,"openWorldHint":false}`,
	},
	{
		name: policy.JobResult, method: "tasks/get", answer: (*Handler).jobResult,
		title: "Result of a job",
		description: "Waits for a job to end and answers with the result that the call would have had, or its error. " +
			"If the job still runs when the time to wait is over, it says so; call it again then. " +
			"If the server has a question meanwhile, the user is asked.",
		arguments:   `,"wait":{"type":"number","minimum":0,"maximum":50,"default":10,"description":"How many seconds to wait at most."}`,
		annotations: `{"readOnlyHint":true,"openWorldHint":false}`,
	},
	{
		name: policy.JobCancel, method: "tasks/cancel", answer: (*Handler).jobCancel, stateful: true,
		title: "Cancel a job",
		description: "Ends a job whose result nobody wants any more. What its tool has done by then is not undone, and it may run on for a while. " +
			"A job that has ended stays as it is.",
		annotations: `{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false}`,
	},
}

// jobState is the outputSchema of the tools that tell the state of a job.
const jobState = `{"type":"object","properties":{` +
	`"jobId":{"type":"string"},` +
	`"tool":{"type":"string","description":"The tool that was called, as its server calls it."},` +
	`"status":{"type":"string","enum":["working","input_required","completed","failed","cancelled"]},` +
	`"statusMessage":{"type":"string"},` +
	`"createdAt":{"type":"string"},"lastUpdatedAt":{"type":"string"},` +
	`"ttlMs":{"type":["integer","null"],"description":"How long the job and its result are kept, from createdAt on; null: for ever."},` +
	`"pollIntervalMs":{"type":"integer","description":"How long to wait before asking again."}` +
	`},"required":["jobId","tool","status","createdAt","lastUpdatedAt","ttlMs"]}`

// jobDefinitions are the tools as an endpoint with the prefix lists them.
func jobDefinitions(prefix string) (list []wire.Raw) {
	for _, t := range jobTools {
		o := wire.Object{}.With("name", wire.Quote(prefix+t.name)).
			With("title", wire.Quote(t.title)).
			With("description", wire.Quote(strings.ReplaceAll(t.description, "{}", prefix))).
			With("inputSchema", wire.Raw(`{"type":"object","properties":{"jobId":{"type":"string","description":"The jobId that the call was answered with."}`+t.arguments+`},"required":["jobId"]}`))
		if t.stateful {
			o = o.With("outputSchema", wire.Raw(jobState))
		}
		list = append(list, o.With("annotations", wire.Raw(t.annotations)).Bytes())
	}
	return list
}
