package legacyfront_test

import (
	"strings"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/wire"
)

const jobsAtOnce = "defaults: {promoteAfter: 0s, undeclared: jobs}\n"

// startJob calls a tool that goes on as a job.
func (c *client) startJob(url, tool string) (id string) {
	c.t.Helper()
	state, _ := c.call(url, tool).result().Object("structuredContent")
	if id = text(state, "jobId"); id == "" {
		c.t.Fatalf("no job: %s", state.Bytes())
	}
	return id
}

func (c *client) job(url, tool, id string) *response {
	c.t.Helper()
	return c.request(url, "tools/call", `{"name":"`+tool+`","arguments":{"jobId":"`+id+`"}}`)
}

func TestJobsOfSessions(t *testing.T) {
	for _, era := range []struct {
		name string
		up   func(...mcptest.Tool) *mcptest.Upstream
	}{{"legacy", mcptest.NewLegacy}, {"modern", mcptest.NewModern}} {
		for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
			t.Run(era.name+" "+version, func(t *testing.T) {
				a := gatewayWith(t, era.up(mcptest.Tool{Name: "asks", Run: asks}).Start(t), "memory", jobsAtOnce)
				c := open(t, a, version, everything)
				list := string(c.request(a, "tools/list", `{}`).result().Bytes())
				check(t, "listed for jobs", strings.Count(list, `"name":"job_`), 3)
				check(t, "listed as forbidden to be tasks", strings.Count(list, `"execution":{"taskSupport":"forbidden"}`), map[bool]int{true: 3}[version == "2025-11-25"])

				id := c.startJob(a, "asks")
				r := c.job(a, "job_result", id)
				for _, value := range []string{"Ann", "x", "y"} {
					c.answer(a, r.until(wire.MethodElicit), "result", `{"action":"accept","content":{"v":"`+value+`"}}`)
				}
				result := r.result()
				for _, want := range []string{"Ann", "x", "y"} {
					if !strings.Contains(string(result.Bytes()), want) {
						t.Errorf("result %s has no %q", result.Bytes(), want)
					}
				}
				if status := string(c.job(a, "job_status", id).result().Bytes()); !strings.Contains(status, `"status":"completed"`) {
					t.Errorf("status: %s", status)
				}
			})
		}
	}
}

// Who declares the tasks of 2025-11-25 has them, and needs no jobs.
func TestSessionsWithTasksGetNoJobs(t *testing.T) {
	a := gatewayWith(t, mcptest.NewLegacy(mcptest.Tool{Name: "hello", Run: hello}).Start(t), "memory", `
rules:
  - {match: {tool: hello}, task: required, undeclared: jobs}
`)
	with, without := open(t, a, "2025-11-25", `{"tasks":{}}`), open(t, a, "2025-11-25", `{}`)
	for c, support := range map[*client]string{with: "required", without: "optional"} {
		list := string(c.request(a, "tools/list", `{}`).result().Bytes())
		check(t, "taskSupport "+support, strings.Contains(list, `"execution":{"taskSupport":"`+support+`"}`), true)
		check(t, "lists the tools for jobs", strings.Contains(list, "job_status"), c == without)
	}
	check(t, "a call without a task", with.call(a, "hello").error().Code, wire.CodeMethodNotFound)
	id := without.startJob(a, "hello")
	check(t, "a call for a job as a task", without.request(a, "tools/call", `{"name":"job_status","arguments":{"jobId":"`+id+`"},"task":{}}`).error().Code, wire.CodeMethodNotFound)
	if got := string(without.job(a, "job_result", id).result().Bytes()); !strings.Contains(got, "hello") {
		t.Errorf("result: %s", got)
	}

	task := with.callAsTask(a, "hello", `{}`)
	if got := string(without.job(a, "job_result", text(task, "taskId")).result().Bytes()); !strings.Contains(got, "hello") {
		t.Errorf("the result of a task: %s", got)
	}
	older := open(t, a, "2025-06-18", `{"tasks":{}}`) // which has no meaning there
	older.startJob(a, "hello")
}

// Any replica answers for a job, and who waits at one learns at once what has
// happened at another.
func TestJobAtAnotherReplica(t *testing.T) {
	goOn := make(chan struct{})
	store, up := redistest.Start(t).URL(), mcptest.NewLegacy(mcptest.Tool{Name: "steps", Run: steps(goOn)}).Start(t)
	a, b := gatewayWith(t, up, store, jobsAtOnce), gatewayWith(t, up, store, jobsAtOnce)
	c := open(t, a, "2025-06-18", `{}`)
	id := c.startJob(a, "steps")
	if got := string(c.job(b, "job_status", id).result().Bytes()); !strings.Contains(got, `"status":"working"`) {
		t.Errorf("status: %s", got)
	}
	waiting := c.job(b, "job_result", id)
	close(goOn)
	if got := string(waiting.result().Bytes()); !strings.Contains(got, "done") {
		t.Errorf("result: %s", got)
	}
}
