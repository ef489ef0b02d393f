package mcptest

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskgate/wire"
)

func modernClient(t *testing.T, u *Upstream, capabilities string) *Client {
	t.Helper()
	c := NewClient(u.Start(t), capabilities)
	t.Cleanup(c.Close)
	return c
}

func mustCall(t *testing.T, c *Client, tool, arguments string, options ...Option) Reply {
	t.Helper()
	r, err := c.CallTool(t.Context(), tool, arguments, options...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestModernCall(t *testing.T) {
	for _, json := range []bool{true, false} {
		u := with(NewModern(Fixtures(time.Millisecond)...), Options{JSON: json})
		c := modernClient(t, u, NoCapabilities)
		var live int
		r := mustCall(t, c, "slow_compute", `{"seconds":2,"key":"k"}`, WithProgress(wire.Raw(`"tok"`)), OnNotification(func(wire.Message) { live++ }))
		if r.Status != 200 || r.Text() != "Computed." || r.Type() != "complete" || r.Err() != nil {
			t.Errorf("json %v: %d %s", json, r.Status, r.Body)
		}
		if want := map[bool]int{true: 0, false: 2}[json]; len(r.Notifications) != want || live != want {
			t.Errorf("json %v: %d notifications, %d of them live", json, len(r.Notifications), live)
		}
		if n := len(u.Calls("slow_compute", "k")); n != 1 {
			t.Errorf("ran %d times", n)
		}
	}
}

func TestModernProgress(t *testing.T) {
	c := modernClient(t, NewModern(Fixtures(time.Millisecond)...), NoCapabilities)
	r := mustCall(t, c, "slow_compute", `{"seconds":1}`, WithProgress(wire.Raw(`7.50`)))
	if len(r.Notifications) != 1 || string(r.Notifications[0].Params) != `{"progressToken":7.50,"progress":1,"total":1}` {
		t.Errorf("got %s", r.Body)
	}
	if r := mustCall(t, c, "slow_compute", `{"seconds":1}`); len(r.Notifications) != 0 {
		t.Errorf("nobody asked for progress: %s", r.Body)
	}
}

func TestModernRounds(t *testing.T) {
	u := NewModern(Fixtures(0)...)
	c := modernClient(t, u, AllInput)
	r := mustCall(t, c, "multi_input", `{}`)
	inputs, _ := r.Result().Object("inputRequests")
	if r.Type() != "input_required" || len(inputs) != 2 || r.Result().Get("requestState") != nil {
		t.Fatalf("got %s", r.Body)
	}
	retry := func(params string) Reply {
		t.Helper()
		r, err := c.Call(t.Context(), "tools/call", wire.Raw(`{"name":"multi_input","arguments":{},`+params+`}`))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r = retry(`"inputResponses":{"name":{"action":"accept","content":{"name":"Ann"}}}`)
	if inputs, _ = r.Result().Object("inputRequests"); len(inputs) != 1 || inputs[0].Name != "colour" {
		t.Errorf("half the answers: %s", r.Body)
	}
	r = retry(`"inputResponses":{"colour":{"action":"decline"},"name":{"action":"accept","content":{"name":"Ann"}},"other":1}`)
	if r.Text() != "Ann likes ." {
		t.Errorf("all answers: %s", r.Body)
	}
}

func TestModernRequestState(t *testing.T) {
	u := with(NewModern(Tool{Name: "twice", Run: func(c *Call) (wire.Raw, *wire.Error) {
		first, err := c.Ask(Elicit("a", "first?"))
		if err != nil {
			return nil, err
		}
		second, err := c.Ask(Elicit("b", "second?"))
		if err != nil {
			return nil, err
		}
		return Text(string(first["a"]) + string(second["b"])), nil
	}}), Options{RequestState: true})
	c := modernClient(t, u, AllInput)
	round := func(answers, state string) Reply {
		t.Helper()
		params := wire.Object{}.With("name", wire.Raw(`"twice"`)).With("inputResponses", wire.Raw(answers))
		if state != "" {
			params = params.With("requestState", wire.Quote(state))
		}
		r, err := c.Call(t.Context(), "tools/call", params.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := round(`{"a":1,"b":2}`, "")
	state := member(r.Result(), "requestState")
	if r.Type() != "input_required" || state == "" {
		t.Fatalf("answers without a state were believed: %s", r.Body)
	}
	r = round(`{"a":1}`, state)
	if inputs, _ := r.Result().Object("inputRequests"); len(inputs) != 1 || inputs[0].Name != "b" {
		t.Fatalf("second question: %s", r.Body)
	}
	if r = round(`{"b":2}`, member(r.Result(), "requestState")); r.Text() != "12" {
		t.Errorf("got %s", r.Body)
	}
	for _, bad := range []string{"%", base64.StdEncoding.EncodeToString([]byte("x"))} {
		if r = round(`{}`, bad); r.Err() == nil || r.Err().Code != wire.CodeInvalidParams {
			t.Errorf("state %q: %s", bad, r.Body)
		}
	}
}

func TestModernRefuses(t *testing.T) {
	region := Tool{Name: "region", Definition: wire.Raw(`{"inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}`), Run: greet}
	u := with(NewModern(append(Fixtures(0), region)...), Options{JSON: true})
	c := modernClient(t, u, NoCapabilities)
	for _, test := range []struct {
		name, method, params string
		option               Option
		status, code         int
	}{
		{"no version header", "tools/list", `{}`, WithHeader(wire.HeaderVersion), 400, wire.CodeHeaderMismatch},
		{"other method header", "tools/list", `{}`, WithHeader("mcp-method", "tools/call"), 400, wire.CodeHeaderMismatch},
		{"two method headers", "tools/list", `{}`, WithHeader(wire.HeaderMethod, "tools/list", "tools/list"), 400, wire.CodeHeaderMismatch},
		{"no name header", "tools/call", `{"name":"greet"}`, WithHeader(wire.HeaderName), 400, wire.CodeHeaderMismatch},
		{"no param header", "tools/call", `{"name":"region","arguments":{"r":"eu"}}`, WithHeader("X"), 400, wire.CodeHeaderMismatch},
		{"no meta", "tools/list", `{}`, WithoutMeta(), 400, wire.CodeInvalidParams},
		{"no capabilities", "tools/list", `{}`, WithMeta(wire.MetaCapabilities, nil), 400, wire.CodeInvalidParams},
		{"versions differ", "tools/list", `{}`, WithMeta(wire.MetaVersion, wire.Raw(`"2030-01-01"`)), 400, wire.CodeHeaderMismatch},
		{"unknown version", "tools/list", `{}`, func(s *send) {
			WithMeta(wire.MetaVersion, wire.Raw(`"2030-01-01"`))(s)
			WithHeader(wire.HeaderVersion, "2030-01-01")(s)
		}, 400, wire.CodeUnsupportedVersion},
		{"body is no JSON", "tools/list", `{}`, WithBody([]byte("{")), 400, wire.CodeParse},
		{"unknown method", "tasks/get", `{"taskId":"1"}`, WithID(wire.Raw(`"x"`)), 404, wire.CodeMethodNotFound},
		{"initialize", "initialize", `{}`, WithID(wire.Raw(`1`)), 404, wire.CodeMethodNotFound},
		{"unknown tool", "tools/call", `{"name":"none"}`, WithID(wire.Raw(`1`)), 400, wire.CodeInvalidParams},
		{"question nobody can answer", "tools/call", `{"name":"confirm_delete","arguments":{}}`, WithID(wire.Raw(`1`)), 400, wire.CodeMissingCapability},
	} {
		r, err := c.Call(t.Context(), test.method, wire.Raw(test.params), test.option)
		if err != nil || r.Status != test.status || r.Err() == nil || r.Err().Code != test.code {
			t.Errorf("%s: %d %s, %v", test.name, r.Status, r.Body, err)
		}
	}
	if n := len(u.Calls("greet", "")); n != 0 {
		t.Errorf("greet ran %d times", n)
	}
}

func TestModernAccepts(t *testing.T) {
	u := NewModern(Fixtures(0)...)
	c := modernClient(t, u, NoCapabilities)
	r, err := c.Call(t.Context(), "server/discover", wire.Raw(`{}`))
	want := `{"capabilities":{"tools":{}},"supportedVersions":["2026-07-28"],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mcptest-modern","version":"1"}}}`
	if err != nil || string(r.Message.Result) != want {
		t.Errorf("discover: %s, %v", r.Body, err)
	}
	r, err = c.Call(t.Context(), "notifications/cancelled", wire.Raw(`{}`), WithID(nil))
	if err != nil || r.Status != http.StatusAccepted || len(r.Body) != 0 {
		t.Errorf("notification: %d %s, %v", r.Status, r.Body, err)
	}
	if r := mustCall(t, c, "greet", `{"name":"a"}`, WithID(wire.Raw(`"same"`))); string(r.Message.ID) != `"same"` {
		t.Errorf("id: %s", r.Body)
	}
	get, err := http.Get(c.URL)
	if err != nil || get.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %v, %v", get, err)
	}
}

func TestModernCancelByHangingUp(t *testing.T) {
	for _, mode := range []CancelMode{CancelStops, CancelIgnored} {
		tool, open := gate()
		u := with(NewModern(tool), Options{Cancel: mode})
		c := modernClient(t, u, NoCapabilities)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := c.CallTool(ctx, "gate", `{}`, WithProgress(wire.Raw(`1`)), OnNotification(func(wire.Message) { cancel() }))
		if err == nil {
			t.Error("a call that was hung up on succeeded")
		}
		Eventually(t, 5*time.Second, "cancel in the ledger", func() bool { return u.Calls("gate", "")[0].Cancelled })
		if mode == CancelIgnored {
			if u.Calls("gate", "")[0].Ended {
				t.Error("the tool ended although it ignores cancels")
			}
			close(open)
		}
		Eventually(t, 5*time.Second, "end of the tool", func() bool { return u.Calls("gate", "")[0].Ended })
	}
}

func TestModernCut(t *testing.T) {
	tool, open := gate()
	u := NewModern(tool)
	c := modernClient(t, u, NoCapabilities)
	r, err := c.CallTool(t.Context(), "gate", `{}`, WithProgress(wire.Raw(`1`)), OnNotification(func(wire.Message) { u.CutStreams() }))
	if err == nil || len(r.Notifications) != 1 || r.Message.Result != nil {
		t.Errorf("a cut stream: %s, %v", r.Body, err)
	}
	if u.Calls("gate", "")[0].Cancelled {
		t.Error("a cut by the server is no cancel by the client")
	}
	close(open)
}

func TestClientOnHeader(t *testing.T) {
	tool, open := gate()
	c := modernClient(t, NewModern(tool), NoCapabilities)
	r := mustCall(t, c, "gate", `{}`, OnHeader(func(r *http.Response) {
		if r.Header.Get("Content-Type") == "text/event-stream" {
			close(open) // the header came while the tool was running
		}
	}))
	if r.Text() != "open" {
		t.Errorf("got %s", r.Body)
	}
}

// tasks is a server with one task that goes through the given states.
func tasks(t *testing.T, states ...string) *Client {
	u := NewModern()
	n := 0
	u.Handle("tasks/get", func(params wire.Object) (wire.Raw, *wire.Error) {
		if string(params.Get("taskId")) != `"t1"` {
			return nil, wire.Errorf(wire.CodeInvalidParams, "unknown task")
		}
		n = min(n+1, len(states))
		return JSON(map[string]string{"taskId": "t1", "status": states[n-1]}), nil
	})
	echo := func(params wire.Object) (wire.Raw, *wire.Error) { return params.Without("_meta").Bytes(), nil }
	u.Handle("tasks/update", echo)
	u.Handle("tasks/cancel", echo)
	return modernClient(t, u, TasksAndInput)
}

func TestClientWaitTask(t *testing.T) {
	c := tasks(t, "working", "working", "input_required", "completed")
	for _, status := range []string{"working", "input_required", "completed"} {
		if task, err := c.WaitTask(t.Context(), "t1", status); err != nil || member(task, "status") != status {
			t.Errorf("%s: %s, %v", status, task.Bytes(), err)
		}
	}
	if _, err := c.WaitTask(t.Context(), "t1", "working"); err == nil || !strings.Contains(err.Error(), `"completed"`) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := c.WaitTask(t.Context(), "t2", "working"); err == nil || !strings.Contains(err.Error(), "unknown task") {
		t.Errorf("unknown: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	if _, err := tasks(t, "working").WaitTask(ctx, "t1", "completed"); err == nil || !strings.Contains(err.Error(), "working") {
		t.Errorf("never: %v", err)
	}
}

func TestClientTaskRequests(t *testing.T) {
	c := tasks(t, "working")
	r, err := c.Update(t.Context(), "t1", wire.Object{}.With("k", Accept(`{"a":1}`)))
	if want := `{"taskId":"t1","inputResponses":{"k":{"action":"accept","content":{"a":1}}},`; err != nil || !strings.HasPrefix(string(r.Message.Result), want) {
		t.Errorf("update: %s, %v", r.Body, err)
	}
	r, err = c.Cancel(t.Context(), "t1")
	if err != nil || r.TaskID() != "t1" {
		t.Errorf("cancel: %s, %v", r.Body, err)
	}
	r, err = c.Task(t.Context(), "t1", WithHeader(wire.HeaderName, "t2"))
	if err != nil || r.Err() == nil || r.Err().Code != wire.CodeHeaderMismatch {
		t.Errorf("wrong name: %s, %v", r.Body, err)
	}
}
