package legacyfront_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app/apptest"
	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
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
		"2025-11-25": `{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}},"list":{}}}`,
	} {
		c := &client{t: t, caller: "ann"}
		r := c.post(a, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{}}}`)
		check(t, version, string(r.result().Get("capabilities")), want)
		list := string(open(t, a, version, `{}`).request(a, "tools/list", `{}`).result().Bytes())
		check(t, version+": taskSupport", strings.Contains(list, `"execution":{"taskSupport":"optional"}`), version == "2025-11-25")
	}
}

// Policy knows the tools of an endpoint of several by their upstream and own name.
func TestTaskSupportAtAnEndpointOfSeveral(t *testing.T) {
	up := mcptest.NewLegacy(mcptest.Tool{Name: "always", Run: hello}, mcptest.Tool{Name: "never", Run: hello}).Start(t)
	g := apptest.Start(t, zap.NewNop(), "upstreams: [{name: up, path: /up, url: \""+up+"\"}, {name: all, path: /all, aggregate: [up]}]\n",
		"rules: [{match: {upstream: up, tool: always}, task: required}, {match: {upstream: up, tool: never}, task: forbidden}]\n")
	url := g.Endpoints()[0]
	list := string(open(t, url, "2025-11-25", `{}`).request(url, "tools/list", `{}`).result().Bytes())
	for tool, support := range map[string]string{"up__always": "required", "up__never": "forbidden"} {
		check(t, list, strings.Contains(list, `"name":"`+tool+`","execution":{"taskSupport":"`+support+`"}`), true)
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

// list pages through the tasks of a client. Each is as tasks/get has it.
func (c *client) list(url string) (ids []string) {
	c.t.Helper()
	for params, pages := wire.Raw(`{}`), 0; pages < 100; pages++ {
		page := c.request(url, "tasks/list", string(params)).result()
		tasks, err := wire.ParseArray(page.Get("tasks"))
		if err != nil {
			c.t.Fatalf("no tasks in %s", page.Bytes())
		}
		for _, raw := range tasks {
			task, err := wire.ParseObject(raw)
			if err != nil {
				c.t.Fatal(err)
			}
			ids = append(ids, text(task, "taskId"))
			check(c.t, "a listed task", string(raw), string(c.aboutTask(url, "tasks/get", task).result().Bytes()))
		}
		if page.Get("nextCursor") == nil {
			slices.Sort(ids)
			return ids
		}
		params = wire.Object{}.With("cursor", page.Get("nextCursor")).Bytes()
	}
	c.t.Fatal("the pages do not end")
	return nil
}

// A caller is listed the tasks that are its own, of whatever session and era, and
// no call that is no task. Nobody else is.
func TestListOfTasksOf2025(t *testing.T) {
	for store, url := range map[string]string{"memory": "memory", "embedded": "$DIR/tasks.db", "redis": redistest.Start(t).URL()} {
		t.Run(store, func(t *testing.T) {
			stop := make(chan struct{})
			up := mcptest.NewLegacy(mcptest.Tool{Name: "asks", Run: asks}, mcptest.Tool{Name: "long", Run: func(*mcptest.Call) (wire.Raw, *wire.Error) {
				<-stop
				return mcptest.Text("done"), nil
			}})
			a := gatewayWith(t, up.Start(t), url, "defaults: {promoteAfter: 0s, share: tenant}\n")
			c, another := open(t, a, "2025-11-25", everything), open(t, a, "2025-11-25", `{}`)
			bob := openAs(t, "bob", a, "2025-11-25", `{}`)
			check(t, "listed at first", len(c.list(a)), 0)
			c.call(a, "asks").until(wire.MethodElicit) // held

			modern := mcptest.NewClient(a, mcptest.TasksOnly)
			modern.Header.Set("Authorization", "Bearer ann")
			t.Cleanup(modern.Close)
			reply, err := modern.CallTool(t.Context(), "long", `{}`)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{reply.TaskID()}
			for range 60 { // more than a page has
				want = append(want, text(c.callAsTask(a, "long", `{}`), "taskId"))
			}
			slices.Sort(want)
			check(t, "listed", fmt.Sprint(another.list(a)), fmt.Sprint(want))
			check(t, "listed to somebody else, of what is shared with him", len(bob.list(a)), 0)
			close(stop)
			for _, id := range want {
				c.aboutTask(a, "tasks/result", wire.Object{}.With("taskId", wire.Quote(id))).result()
			}
			check(t, "listed once they have ended", fmt.Sprint(c.list(a)), fmt.Sprint(want))
		})
	}
}

// Where callers are not told apart, nobody is shown what the others have.
func TestNoListOfTasksWithoutIdentity(t *testing.T) {
	up := mcptest.NewLegacy(mcptest.Tool{Name: "hello", Run: hello}).Start(t)
	g := apptest.Start(t, zap.NewNop(), `upstreams: [{name: up, url: "`+up+`"}]`+"\n", "rules: []\n")
	a := g.Endpoints()[0]
	c := open(t, a, "2025-11-25", `{}`)
	task := c.callAsTask(a, "hello", `{}`)
	check(t, "get", text(c.aboutTask(a, "tasks/get", task).result(), "taskId"), text(task, "taskId"))
	check(t, "list", c.request(a, "tasks/list", `{}`).error().Code, wire.CodeMethodNotFound)
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
		{c, "tasks/list", `{"cursor":1}`, wire.CodeInvalidParams, "params.cursor is no string"},
		{c, "tasks/list", `{"cursor":"none of ours"}`, wire.CodeInvalidParams, "params.cursor is none"},
		{older, "tasks/list", `{}`, wire.CodeMethodNotFound, "not part of 2025-06-18"},
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
	bob := openAs(t, "bob", a, "2025-11-25", `{}`)
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
