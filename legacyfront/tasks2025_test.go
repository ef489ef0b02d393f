package legacyfront_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// callAsTask makes a task and returns it.
func (c *client) callAsTask(url, tool, task string) wire.Object {
	c.t.Helper()
	result := c.request(url, "tools/call", `{"name":"`+tool+`","arguments":{},"task":`+task+`}`).result()
	made, ok := result.Object("task")
	if !ok {
		c.t.Fatalf("no task: %s", result.Bytes())
	}
	return made
}

func (c *client) aboutTask(url, method string, task wire.Object) *response {
	c.t.Helper()
	return c.request(url, method, `{"taskId":`+string(task.Get("taskId"))+`}`)
}

func text(o wire.Object, name string) string {
	s, _ := wire.String(o.Get(name))
	return s
}

func TestTasksOf2025AreAnnounced(t *testing.T) {
	a := gateway(t, mcptest.NewLegacy(mcptest.Tool{Name: "hello", Run: hello}).Start(t), "memory")
	for version, want := range map[string]string{
		"2025-06-18": `{"tools":{}}`,
		"2025-11-25": `{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`,
	} {
		c := &client{t: t, caller: "ann"}
		r := c.post(a, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{}}}`)
		check(t, version, string(r.result().Get("capabilities")), want)
		list := string(open(t, a, version, `{}`).request(a, "tools/list", `{}`).result().Bytes())
		check(t, version+": taskSupport", strings.Contains(list, `"execution":{"taskSupport":"optional"}`), version == "2025-11-25")
	}
}

func TestTaskOf2025WithAQuestion(t *testing.T) {
	up := mcptest.NewLegacy(mcptest.Tool{Name: "asks", Run: asks})
	a, b := replicas(t, up)
	c := open(t, a, "2025-11-25", everything)
	task := c.callAsTask(a, "asks", `{"ttl":60000}`)
	check(t, "ttl", string(task.Get("ttl")), "60000")
	for _, name := range []string{"taskId", "status", "createdAt", "lastUpdatedAt"} {
		if text(task, name) == "" {
			t.Errorf("the task has no %s: %s", name, task.Bytes())
		}
	}
	for _, modern := range []string{"ttlMs", "pollIntervalMs", "resultType"} {
		if task.Get(modern) != nil {
			t.Errorf("the task has a %s: %s", modern, task.Bytes())
		}
	}

	r := c.aboutTask(b, "tasks/result", task)
	for _, value := range []string{"Ann", "x", "y"} {
		q := r.until(wire.MethodElicit)
		if want := `"io.modelcontextprotocol/related-task":{"taskId":` + string(task.Get("taskId")) + `}`; !strings.Contains(string(q.Params), want) {
			t.Errorf("the question is not related to the task: %s", q.Params)
		}
		c.answer(a, q, "result", `{"action":"accept","content":{"v":"`+value+`"}}`)
	}
	result := r.result()
	meta, _ := result.Object("_meta")
	check(t, "related", string(meta.Get(wire.MetaRelatedTask)), `{"taskId":`+string(task.Get("taskId"))+`}`)
	for _, value := range []string{"Ann", "x", "y"} {
		if !strings.Contains(string(result.Bytes()), value) {
			t.Errorf("result %s has no %q", result.Bytes(), value)
		}
	}
	check(t, "status", text(c.aboutTask(a, "tasks/get", task).result(), "status"), wire.StatusCompleted)
	check(t, "again", string(c.aboutTask(b, "tasks/result", task).result().Bytes()), string(result.Bytes()))
}

// A task belongs to its owner and not to a revision or a session.
func TestTaskIsTheSameInBothEras(t *testing.T) {
	goOn := make(chan struct{})
	a := gateway(t, mcptest.NewLegacy(mcptest.Tool{Name: "steps", Run: steps(goOn)}).Start(t), "memory")
	old := open(t, a, "2025-11-25", `{}`)
	modern := mcptest.NewClient(a, mcptest.TasksOnly)
	modern.Header.Set("Authorization", "Bearer ann")
	t.Cleanup(modern.Close)

	task := old.callAsTask(a, "steps", `{}`)
	reply, err := modern.Task(t.Context(), text(task, "taskId"))
	if err != nil {
		t.Fatal(err)
	}
	check(t, "of the old era in the new", text(reply.Result(), "status"), wire.StatusWorking)

	if reply, err = modern.CallTool(t.Context(), "steps", `{}`); err != nil {
		t.Fatal(err)
	}
	other := reply.Result()
	check(t, "of the new era in the old", text(old.aboutTask(a, "tasks/get", other).result(), "status"), wire.StatusWorking)
	close(goOn)
	for _, task := range []wire.Object{task, other} {
		got := old.aboutTask(a, "tasks/result", task).result()
		if !strings.Contains(string(got.Bytes()), "done") {
			t.Errorf("result: %s", got.Bytes())
		}
	}
}

func TestCancelOfATaskOf2025(t *testing.T) {
	stopped := make(chan struct{})
	up := mcptest.NewLegacy(mcptest.Tool{Name: "long", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		<-c.Cancelled()
		close(stopped)
		return mcptest.Text("stopped"), nil
	}})
	a, b := replicas(t, up)
	c := open(t, a, "2025-11-25", `{}`)
	task := c.callAsTask(a, "long", `{}`)
	waiting := c.aboutTask(a, "tasks/result", task)
	check(t, "status", text(c.aboutTask(b, "tasks/cancel", task).result(), "status"), wire.StatusCancelled)
	wait(t, "the upstream is told to stop", stopped)
	check(t, "cancel again", c.aboutTask(b, "tasks/cancel", task).error().Code, wire.CodeInvalidParams)
	check(t, "who waits for the result", waiting.error().Code, wire.CodeInvalidParams)
}

func TestTasksOf2025AreRefused(t *testing.T) {
	up := mcptest.NewLegacy(mcptest.Tool{Name: "hello", Run: hello}, mcptest.Tool{Name: "never", Run: hello}, mcptest.Tool{Name: "always", Run: hello})
	a := gatewayWith(t, up.Start(t), "memory", `
rules:
  - {name: never, match: {tool: never}, task: forbidden}
  - {name: always, match: {tool: always}, task: required}
`)
	c, older := open(t, a, "2025-11-25", `{}`), open(t, a, "2025-06-18", `{}`)
	list := string(c.request(a, "tools/list", `{}`).result().Bytes())
	for _, support := range []string{"optional", "forbidden", "required"} {
		if !strings.Contains(list, `"taskSupport":"`+support+`"`) {
			t.Errorf("no tool is %s: %s", support, list)
		}
	}
	for _, r := range []struct {
		client         *client
		method, params string
		code           int
		text           string
	}{
		{c, "tools/call", `{"name":"never","task":{}}`, wire.CodeMethodNotFound, "not run as a task"},
		{c, "tools/call", `{"name":"always"}`, wire.CodeMethodNotFound, "runs as a task only"},
		{c, "tools/call", `{"name":"hello","task":{"ttl":0}}`, wire.CodeInvalidParams, "params.task.ttl"},
		{c, "tools/call", `{"name":"hello","task":true}`, wire.CodeInvalidParams, "params.task must be an object"},
		{c, "tasks/get", `{}`, wire.CodeInvalidParams, "params.taskId is missing"},
		{c, "tasks/result", `{"taskId":"nobody's"}`, wire.CodeInvalidParams, "not a task id"},
		{c, "tasks/list", `{}`, wire.CodeMethodNotFound, "tasks/list"},
		{c, "tasks/update", `{}`, wire.CodeMethodNotFound, "not part of 2025-11-25"},
		{older, "tasks/get", `{"taskId":"x"}`, wire.CodeMethodNotFound, "not part of 2025-06-18"},
	} {
		resp := r.client.request(a, r.method, r.params)
		check(t, "status", resp.StatusCode, http.StatusOK)
		if e := resp.error(); e.Code != r.code || !strings.Contains(e.Message, r.text) {
			t.Errorf("%s %s:\ngot  %v\nwant %s (%d)", r.method, r.params, e, r.text, r.code)
		}
	}
	task := c.callAsTask(a, "hello", `{}`)
	bob := &client{t: t, caller: "bob"}
	r := bob.post(a, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	bob.session, bob.version = r.Header.Get(wire.HeaderSession), wire.LegacyVersion
	check(t, "somebody else's", bob.aboutTask(a, "tasks/get", task).error().Message, "Invalid params: task not found")
	check(t, "a plain call", string(older.request(a, "tools/call", `{"name":"hello","task":{}}`).result().Get("task")), "")
}

// A session hears of the tasks that it has made, wherever, on the stream that
// belongs to no request, which goes on undisturbed.
func TestTasksOf2025AreToldOnTheGETStream(t *testing.T) {
	goOn := make(chan struct{})
	up := mcptest.NewLegacy(mcptest.Tool{Name: "hello", Run: hello}, mcptest.Tool{Name: "steps", Run: steps(goOn)})
	up.Capabilities = wire.Raw(`{"tools":{"listChanged":true}}`)
	a, b := replicas(t, up)
	c := open(t, a, "2025-11-25", `{}`)
	stream := c.do(http.MethodGet, b, "")
	told := func() wire.Object {
		msg, _ := stream.next()
		check(t, "method", msg.Method, "notifications/tasks/status")
		task, _ := wire.ParseObject(msg.Params)
		if task.Get("ttlMs") != nil {
			t.Errorf("of another revision: %s", msg.Params)
		}
		return task
	}
	untilEnded := func(id string) {
		for {
			if task := told(); text(task, "taskId") == id && text(task, "status") == wire.StatusCompleted {
				return
			}
		}
	}
	long := text(c.callAsTask(a, "steps", `{}`), "taskId")
	check(t, "the first told", text(told(), "taskId"), long)
	untilEnded(text(c.callAsTask(b, "hello", `{}`), "taskId"))
	close(goOn)
	untilEnded(long)

	older := open(t, a, "2025-06-18", `{}`)
	heard := older.do(http.MethodGet, a, "")
	untilEnded(text(c.callAsTask(a, "hello", `{}`), "taskId"))
	up.Broadcast(wire.Message{Method: wire.NoteTools})
	msg, _ := heard.next()
	check(t, "what an older session hears", msg.Method, wire.NoteTools)
}

func TestTheLatestTasksOfASessionAreTold(t *testing.T) {
	a := gateway(t, mcptest.NewLegacy(mcptest.Tool{Name: "hello", Run: hello}).Start(t), "memory")
	c := open(t, a, "2025-11-25", `{}`)
	var want, got []string
	for n := range 102 {
		if id := text(c.callAsTask(a, "hello", `{}`), "taskId"); n >= 2 {
			want = append(want, id)
		}
	}
	stream := c.do(http.MethodGet, a, "")
	for len(got) < len(want) {
		task, _ := wire.ParseObject(stream.until("notifications/tasks/status").Params)
		if id := text(task, "taskId"); !slices.Contains(got, id) {
			got = append(got, id)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("told of other tasks than the latest 100")
	}
}
