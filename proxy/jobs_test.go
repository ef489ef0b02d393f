package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskgate/internal/bubble"
	"taskgate/internal/mcptest"
	"taskgate/policy"
	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// jobs makes calls of clients without tasks jobs after a second.
func jobs(s *setup) {
	s.pipes = true
	s.decision.PromoteAfter, s.decision.Undeclared = time.Second, policy.Jobs
}

// until is an upstream that answers when it is told to.
func until(answer <-chan upstream.Reply) func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
	return func(ctx context.Context, _ upstream.Request, _ upstream.Handler) (upstream.Reply, error) {
		select {
		case r := <-answer:
			return r, nil
		case <-ctx.Done():
			return upstream.Reply{}, ctx.Err()
		}
	}
}

// person is a client without tasks and its calls.
type person struct {
	*mcptest.Client
	g *gateway
}

func (g *gateway) person(name, capabilities string) person {
	c := g.client(name)
	c.Capabilities = wire.Raw(capabilities)
	return person{c, g}
}

func (p person) call(tool, arguments string, options ...mcptest.Option) mcptest.Reply {
	p.g.t.Helper()
	return p.g.ok(p.CallTool(p.g.t.Context(), tool, arguments, options...))
}

// about calls a tool for jobs.
func (p person) about(tool, id string) mcptest.Reply {
	p.g.t.Helper()
	return p.call(tool, `{"jobId":"`+id+`"}`)
}

// start calls a tool that goes on as a job.
func (p person) start() (id string) {
	p.g.t.Helper()
	r := p.call("tool", `{}`)
	state, _ := r.Result().Object("structuredContent")
	id, _ = wire.String(state.Get("jobId"))
	if !taskroute.ValidID(id) || !strings.Contains(r.Text(), id) || r.Type() != wire.ResultComplete {
		p.g.t.Fatalf("no job: %s", r.Body)
	}
	return id
}

// says looks for what a result says, and whether it is an error.
func says(t *testing.T, r mcptest.Reply, isError bool, want ...string) {
	t.Helper()
	check(t, "isError of "+string(r.Body), string(r.Result().Get("isError")) == "true", isError)
	for _, w := range want {
		if !strings.Contains(r.Text(), w) {
			t.Errorf("no %q in: %s", w, r.Body)
		}
	}
}

func TestSlowCallBecomesAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan upstream.Reply, 1)
		g := newGateway(t, jobs, func(s *setup) { s.up.call = until(answer) })
		ann := g.person("ann", mcptest.NoCapabilities)
		began := time.Now()
		id := ann.start()
		check(t, "time until the job", time.Since(began), time.Second)

		status := ann.about("job_status", id)
		says(t, status, false, id, "tool", "working", "in 1 s")
		state, _ := status.Result().Object("structuredContent")
		for name, want := range map[string]string{"jobId": `"` + id + `"`, "tool": `"tool"`, "status": `"working"`, "ttlMs": "3600000", "pollIntervalMs": "1000", "taskId": "", "resultType": ""} {
			check(t, name, string(state.Get(name)), want)
		}
		began = time.Now()
		still := ann.about("job_result", id)
		says(t, still, false, "working")
		check(t, "structuredContent of a result that is none yet", string(still.Result().Get("structuredContent")), "")
		check(t, "wait", time.Since(began), usualWait*time.Second)
		check(t, "the task of the same caller", string(g.ok(g.client("ann").Task(t.Context(), id)).Result().Get("status")), `"working"`)

		time.AfterFunc(3*time.Second, func() { answer <- result(`{"content":[],"structuredContent":{"n":9007199254740993},"x":[1.50]}`) })
		began = time.Now()
		ended := ann.call("job_result", `{"jobId":"`+id+`","wait":20}`)
		check(t, "time until the result", time.Since(began), 3*time.Second)
		check(t, "result", string(ended.Message.Result), `{"content":[],"structuredContent":{"n":9007199254740993},"x":[1.50],"resultType":"complete"}`)
		says(t, ann.about("job_status", id), false, "completed", "job_result")
		says(t, ann.about("job_cancel", id), false, "completed")
		check(t, "again", string(ann.about("job_result", id).Message.Result), string(ended.Message.Result))
		check(t, "requests that reached the upstream", len(g.up.got()), 1)
	})
}

func TestWhoGetsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, jobs, func(s *setup) {
			s.up.call = func(ctx context.Context, r upstream.Request, h upstream.Handler) (upstream.Reply, error) {
				if name, _ := wire.String(r.Params.Get("name")); name == "slow" {
					<-time.After(5 * time.Second)
				}
				return result(`{"content":[{"type":"text","text":"done"}]}`), nil
			}
		})
		check(t, "a quick call", g.person("ann", mcptest.NoCapabilities).call("quick", `{}`).Text(), "done")
		check(t, "a client with tasks", g.ok(g.client("ann").CallTool(t.Context(), "slow", `{}`)).Type(), wire.ResultTask)
		g.backend.set(errors.New("down"))
		check(t, "without a store", g.person("ann", mcptest.NoCapabilities).call("slow", `{}`).Text(), "done")
	})
}

func TestEndsOfJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan upstream.Reply, 1)
		g := newGateway(t, jobs, func(s *setup) { s.up.call = until(answer) })
		ann := g.person("ann", mcptest.NoCapabilities)

		failed := ann.start()
		answer <- upstream.Reply{Error: wire.Raw(`{"code":-32000,"message":"no paper","data":{"tray":2}}`)}
		check(t, "its own error", string(ann.about("job_result", failed).Message.Error), `{"code":-32000,"message":"no paper","data":{"tray":2}}`)
		says(t, ann.about("job_status", failed), false, "failed", "no paper")

		unlucky := ann.start()
		answer <- result(`{"content":[{"type":"text","text":"oops"}],"isError":true}`)
		says(t, ann.about("job_result", unlucky), true, "oops")

		cancelled := ann.start()
		says(t, ann.about("job_cancel", cancelled), false, "cancelled")
		says(t, ann.about("job_result", cancelled), true, "cancelled")
		says(t, ann.about("job_status", cancelled), false, "cancelled")
	})
}

func TestJobsOfOthersAreUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, jobs, func(s *setup) {
			s.decision.TTL, s.decision.Timeout = time.Minute, 10*time.Second
			s.up.call = waits
		})
		ann, bob := g.person("ann", mcptest.NoCapabilities), g.person("bob", mcptest.NoCapabilities)
		id := ann.start()
		unknown := bob.about("job_status", taskroute.NewID())
		says(t, unknown, true, "not found")
		for _, tool := range policy.JobTools("") {
			check(t, "of somebody else", bob.about(tool, id).Text(), unknown.Text())
			says(t, ann.about(tool, "x"), true, "arguments.jobId")
			says(t, ann.call(tool, `{}`), true, "arguments.jobId")
		}
		for _, wait := range []string{"-1", "51", `"5"`, "true"} {
			says(t, ann.call("job_result", `{"jobId":"`+id+`","wait":`+wait+`}`), true, "arguments.wait", "0 to 50")
		}
		says(t, ann.about("job_status", id), false, "working")
		bubble.Advance(2 * time.Minute)
		says(t, ann.about("job_status", id), true, "expired")
		check(t, "expired, to somebody else", bob.about("job_status", id).Text(), unknown.Text())
	})
}

// accept is the answer to a question.
const accept = `{"action":"accept","content":{"n":1}}`

// retryWith is a call again, with the answer to its question.
func (p person) retryWith(question mcptest.Reply, tool, arguments string) mcptest.Reply {
	p.g.t.Helper()
	asked, _ := question.Result().Object("inputRequests")
	if question.Type() != wire.ResultInputRequired || len(asked) != 1 {
		p.g.t.Fatalf("no question: %s", question.Body)
	}
	params := wire.Object{}.With("name", wire.Quote(tool)).With("arguments", wire.Raw(arguments)).
		With("inputResponses", wire.Object{}.With(asked[0].Name, wire.Raw(accept)).Bytes())
	if state := question.Result().Get("requestState"); state != nil {
		params = params.With("requestState", state)
	}
	return p.g.ok(p.Call(p.g.t.Context(), "tools/call", params.Bytes()))
}

const asksBack = `{"elicitation":{"form":{}}}`

func TestQuestionBeforeAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, jobs, func(s *setup) {
			s.up.call = func(ctx context.Context, r upstream.Request, h upstream.Handler) (upstream.Reply, error) {
				out, err := asks(ctx, r, h)
				<-time.After(5 * time.Second)
				return out, err
			}
		})
		ann := g.person("ann", asksBack)
		started := ann.retryWith(ann.call("tool", `{}`), "tool", `{}`)
		state, _ := started.Result().Object("structuredContent")
		id, _ := wire.String(state.Get("jobId"))
		says(t, started, false, "Started as job "+id)
		check(t, "result", string(ann.about("job_result", id).Result().Get("structuredContent")), accept)
	})
}

func TestQuestionOfAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, jobs, func(s *setup) {
			s.up.call = func(ctx context.Context, r upstream.Request, h upstream.Handler) (upstream.Reply, error) {
				<-time.After(3 * time.Second)
				return asks(ctx, r, h)
			}
		})
		ann, mute := g.person("ann", asksBack), g.person("ann", mcptest.NoCapabilities)
		id := ann.start()
		began := time.Now()
		question := ann.about("job_result", id)
		check(t, "time until the question", time.Since(began), 2*time.Second)
		says(t, ann.about("job_status", id), false, "job_result", "asks the user")
		says(t, mute.about("job_status", id), false, "cannot be asked")
		says(t, mute.call("job_result", `{"jobId":"`+id+`","wait":1}`), false, "cannot be asked")
		ended := ann.retryWith(question, "job_result", `{"jobId":"`+id+`"}`)
		check(t, "result", string(ended.Result().Get("structuredContent")), accept)
		check(t, "answers that come too late", string(ann.retryWith(question, "job_result", `{"jobId":"`+id+`"}`).Message.Result), string(ended.Message.Result))

		bad := g.ok(ann.Call(t.Context(), "tools/call", wire.Raw(`{"name":"job_result","arguments":{"jobId":"`+id+`"},"inputResponses":[]}`)))
		says(t, bad, true, "params.inputResponses")
	})
}

func TestLimitsOfJobTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, jobs, func(s *setup) {
			s.Quota.EarlyPolls, s.Quota.PrincipalStreams = 2, 1
			s.up.call = waits
		})
		ann := g.person("ann", mcptest.NoCapabilities)
		id := ann.start()
		for range 3 {
			says(t, ann.about("job_status", id), false, "working")
		}
		refused(t, ann.about("job_status", id), "polled_too_fast", "2")
		bubble.Advance(3 * time.Second)
		waiting := make(chan mcptest.Reply)
		go func() { waiting <- ann.about("job_result", id) }()
		synctest.Wait()
		refused(t, ann.about("job_result", id), "too_many_streams", "1")
		says(t, <-waiting, false, "working")

		g.backend.set(errors.New("down"))
		check(t, "without a store", ann.about("job_status", id).Status, http.StatusServiceUnavailable)
	})
}

// While the store is away somebody who waits waits on; a gateway that goes down
// lets nobody wait.
func TestWaitForAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan upstream.Reply, 1)
		g := newGateway(t, jobs, func(s *setup) { s.up.call = until(answer) })
		ann := g.person("ann", mcptest.NoCapabilities)
		wait := func(id string) <-chan mcptest.Reply {
			out := make(chan mcptest.Reply, 1)
			go func() { out <- ann.call("job_result", `{"jobId":"`+id+`","wait":50}`) }()
			synctest.Wait()
			return out
		}
		waiting := wait(ann.start())
		g.backend.set(errors.New("down"))
		bubble.Advance(20 * time.Second)
		g.backend.set(nil)
		answer <- result(`{"content":[{"type":"text","text":"done"}]}`)
		check(t, "result", (<-waiting).Text(), "done")

		waiting = wait(ann.start())
		began := time.Now()
		g.CloseStreams()
		says(t, <-waiting, false, "working")
		check(t, "time", time.Since(began), 0)
	})
}

func (s *setup) lists(pages ...string) {
	s.up.list = func(_ context.Context, r upstream.Request, _ upstream.Handler) (upstream.Reply, error) {
		at := 0
		if cursor, ok := wire.String(r.Params.Get("cursor")); ok {
			at = int(cursor[0] - '0')
		}
		return result(pages[at]), nil
	}
}

const (
	schemed = `{"name":"tool","outputSchema":{"type":"object"}}`
	plain   = `{"name":"ping","outputSchema":{"type":"object"}}`
)

func (g *gateway) list(c *mcptest.Client, params string) string {
	g.t.Helper()
	return string(g.ok(c.Call(g.t.Context(), "tools/list", wire.Raw(params))).Message.Result)
}

func TestToolsForJobsAreListed(t *testing.T) {
	onlyTool := func(_, tool string) bool { return tool == "tool" }
	g := newGateway(t, func(s *setup) {
		s.OffersJobs, s.MakesJobs = func(string) bool { return true }, onlyTool
		s.lists(`{"tools":[`+schemed+`],"nextCursor":"1","cacheScope":"public"}`, `{"tools":[`+plain+`]}`)
		s.up.info = func(context.Context) (upstream.Info, error) {
			return upstream.Info{Capabilities: wire.Raw(`{"tools":{}}`)}, nil
		}
	})
	without := g.person("ann", mcptest.NoCapabilities)
	last := g.list(without.Client, `{"cursor":"1"}`) // of a replica that has not seen the page before
	if !strings.HasPrefix(last, `{"tools":[`+plain+`,{"name":"job_status",`) || strings.Count(last, `"name":"job_`) != 3 {
		t.Errorf("the last page: %s", last)
	}
	check(t, "the first page", g.list(without.Client, `{}`), `{"tools":[{"name":"tool"}],"nextCursor":"1","cacheScope":"private","resultType":"complete","ttlMs":0}`)
	with := g.client("ann")
	check(t, "with tasks", g.list(with, `{}`), `{"tools":[`+schemed+`],"nextCursor":"1","cacheScope":"private","resultType":"complete","ttlMs":0}`)
	check(t, "with tasks, the last page", g.list(with, `{"cursor":"1"}`), `{"tools":[`+plain+`],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)

	none := newGateway(t, func(s *setup) {
		s.OffersJobs, s.MakesJobs = func(string) bool { return true }, func(string, string) bool { return false }
		s.lists(`{"tools":[` + plain + `]}`)
	})
	if list := none.list(none.person("ann", mcptest.NoCapabilities).Client, `{}`); strings.Contains(list, "job_") {
		t.Errorf("listed although no call can become a job: %s", list)
	}
}

// A tool of the upstream's own keeps its name, and nothing becomes a job.
func TestToolsForJobsHideNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, jobs, func(s *setup) {
			s.lists(`{"tools":[` + schemed + `,{"name":"job_result"}]}`)
			s.up.call = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
				<-time.After(5 * time.Second)
				return result(`{"content":[{"type":"text","text":"its own"}]}`), nil
			}
		})
		ann := g.person("ann", mcptest.NoCapabilities)
		for _, tool := range append(policy.JobTools(""), "tool") {
			check(t, tool, ann.call(tool, `{}`).Text(), "its own")
		}
		if list := g.list(ann.Client, `{}`); strings.Contains(list, "job_status") {
			t.Errorf("listed: %s", list)
		}
	})
}

func TestToolsForJobsAreTheUpstreamsWhereThereAreNone(t *testing.T) {
	g := newGateway(t)
	ann := g.person("ann", mcptest.NoCapabilities)
	ann.call("job_status", `{}`)
	check(t, "requests that reached the upstream", len(g.up.got()), 1)
	check(t, "the list", g.list(ann.Client, `{}`), `{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
}
