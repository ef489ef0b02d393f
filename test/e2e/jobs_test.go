package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

const jobsAtOnce = "defaults: {promoteAfter: 0s, pollInterval: 200ms, undeclared: jobs}\n"

// jobCall is a call that becomes a job.
type jobCall struct {
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
}

// jobCalls are what each client calls. The first tool says what it answers with
// (outputSchema), the third asks, and the last call is cancelled.
var jobCalls = []jobCall{
	{"get-structured-content", arguments{"location": "Chicago"}},
	{longTool, lasting(2, 2)},
	{"trigger-elicitation-request", arguments{}},
	{longTool, lasting(600, 600)},
}

// jobsSeen is what a client has seen of its jobs.
type jobsSeen struct {
	Tools []struct {
		Name         string
		OutputSchema wire.Raw
	}
	Started, Results          []wire.Raw
	Status, Cancel, Cancelled wire.Raw
	Questions                 int
}

// Clients that know nothing of tasks see calls through that none of them would have
// waited for.
func TestClientsWithoutTasksGetJobs(t *testing.T) {
	server := mcptest.Everything(t, "streamableHttp").URL
	url := Start(t, Options{Upstream: server, Policy: jobsAtOnce}).Endpoint
	for name, see := range map[string]func(t *testing.T) jobsSeen{
		"typescript client, modern":  func(t *testing.T) jobsSeen { return typescriptJobs(t, "client", "modern", url) },
		"typescript client, session": func(t *testing.T) jobsSeen { return typescriptJobs(t, "client", "legacy", url) },
		"typescript sdk":             func(t *testing.T) jobsSeen { return typescriptJobs(t, "sdk", "legacy", url) },
		"go-sdk, modern": func(t *testing.T) jobsSeen {
			return goSDKJobs(t, &mcp.StreamableClientTransport{Endpoint: url}, wire.Version)
		},
		"go-sdk, session": func(t *testing.T) jobsSeen {
			return goSDKJobs(t, &mcp.StreamableClientTransport{Endpoint: url}, wire.LegacyVersion)
		},
		"go-sdk, stdio": func(t *testing.T) jobsSeen {
			return goSDKJobs(t, &mcp.CommandTransport{Command: stdioCommand(t, server, jobsAtOnce)}, wire.LegacyVersion)
		},
	} {
		t.Run(name, func(t *testing.T) { see(t).check(t) })
	}
}

func (s jobsSeen) check(t *testing.T) {
	t.Helper()
	var names []string
	for _, tool := range s.Tools {
		names = append(names, tool.Name)
		if tool.OutputSchema != nil && !strings.HasPrefix(tool.Name, "job_") {
			t.Errorf("%s is listed with an outputSchema", tool.Name)
		}
	}
	for _, name := range []string{"job_status", "job_result", "job_cancel", longTool} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not listed: %v", name, names)
		}
	}
	for i, started := range s.Started {
		if got := text(t, started); !strings.Contains(got, "Started as job") || !strings.Contains(got, "job_result") {
			t.Errorf("the answer to %s: %q", jobCalls[i].Name, got)
		}
	}
	for i, want := range []string{`"temperature":36`, longDone, answerDone} {
		if !strings.Contains(string(s.Results[i]), want) {
			t.Errorf("the result of %s has no %s: %s", jobCalls[i].Name, want, s.Results[i])
		}
	}
	if s.Questions != 1 {
		t.Errorf("it was asked %d questions, want 1", s.Questions)
	}
	for got, want := range map[string]string{string(s.Status): `"status":"completed"`, string(s.Cancelled): "was cancelled and has no result"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if got := text(t, s.Cancel); !strings.Contains(got, "cancelled") {
		t.Errorf("the answer to job_cancel: %q", got)
	}
}

func typescriptJobs(t *testing.T, name, era, url string) (s jobsSeen) {
	t.Helper()
	parse(t, runDriver(t, "tsjobs.mjs", name, era, url, marshal(t, jobCalls)), &s)
	return s
}

func goSDKJobs(t *testing.T, tr mcp.Transport, version string) (s jobsSeen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "0"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			s.Questions++
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann", "check": true}}, nil
		},
	})
	session, err := c.Connect(ctx, tr, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	parse(t, []byte(marshal(t, list)), &s)
	call := func(name string, args arguments) wire.Raw {
		t.Helper()
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return wire.Raw(marshal(t, r))
	}
	start := func(c jobCall) (started wire.Raw, job arguments) {
		t.Helper()
		started = call(c.Name, c.Arguments)
		var r struct{ StructuredContent struct{ JobID string } }
		if err := json.Unmarshal(started, &r); err != nil || r.StructuredContent.JobID == "" {
			t.Fatalf("%s: no job: %s (%v)", c.Name, started, err)
		}
		return started, arguments{"jobId": r.StructuredContent.JobID}
	}
	for _, c := range jobCalls[:3] {
		started, job := start(c)
		result := call("job_result", job)
		for strings.HasPrefix(text(t, result), "Job ") {
			result = call("job_result", job)
		}
		s.Started, s.Results, s.Status = append(s.Started, started), append(s.Results, result), call("job_status", job)
	}
	_, job := start(jobCalls[3])
	s.Cancel, s.Cancelled = call("job_cancel", job), call("job_result", job)
	return s
}

// What holds for tasks when a gateway dies holds for jobs: the call goes on where its
// server lets it be found again, and elsewhere its client is told that nobody knows.
func TestAJobOutlivesAKilledGateway(t *testing.T) {
	server := mcptest.Everything(t, "streamableHttp")
	g := Start(t, Options{Upstream: server.URL, Policy: jobsAtOnce})
	c := newClient(t, g.Endpoint)
	without := mcptest.WithCapabilities(mcptest.NoCapabilities)
	start := func(seconds float64) (id string) {
		t.Helper()
		state, _ := resultOf(t, c.call(t, longTool, lasting(seconds, 2*seconds), without)).Object("structuredContent")
		id, _ = wire.String(state.Get("jobId"))
		c.progressed(t, id)
		return id
	}
	end := func(id string) (r mcptest.Reply) {
		t.Helper()
		Eventually(t, "the end of the job", func() bool {
			r = c.call(t, "job_result", arguments{"jobId": id, "wait": 5}, without)
			return r.Err() != nil || !strings.HasPrefix(r.Text(), "Job ")
		})
		return r
	}

	id := start(6)
	g.Kill()
	g.Restart(t)
	if got := end(id); !strings.HasPrefix(got.Text(), "Long running operation completed. Duration: 6 seconds") {
		t.Errorf("result: %s", got.Body)
	}

	id = start(600)
	g.Kill()
	server.Kill()
	server.Start()
	g.Restart(t)
	if got := end(id); got.Err() == nil || !strings.Contains(string(got.Err().Data), "outcome_unknown") {
		t.Errorf("the outcome that nobody knows: %s", got.Body)
	}
}
