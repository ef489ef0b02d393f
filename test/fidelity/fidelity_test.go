package fidelity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app/apptest"
	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/wire"
)

// rounds is how often each way is tried before each upstream and over each store.
const rounds = 12

const policyFile = `
defaults: {promoteAfter: 1m, ttl: 1h}
rules:
  - match: {tool: task}
    task: required
  - match: {tool: held}
    task: forbidden
`

func TestBytesComeThrough(t *testing.T) {
	stores := map[string]string{
		"memory": "memory", "bolt": filepath.Join(t.TempDir(), "tasks.db"), "redis": redistest.Start(t).URL(),
	}
	eras := map[string]func(...mcptest.Tool) *mcptest.Upstream{"legacy": mcptest.NewLegacy, "modern": mcptest.NewModern}
	for store, url := range stores {
		for era, upstream := range eras {
			t.Run(store+"/"+era, func(t *testing.T) {
				seed := uint64(time.Now().UnixNano())
				e := newEnds(t, upstream, url)
				e.Writer = mcptest.NewWriter(seed)
				for range rounds {
					e.atOnce()
					e.held()
					e.asTask()
				}
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			})
		}
	}
}

// ends are both ends of a gateway.
type ends struct {
	mcptest.Writer
	t      *testing.T
	up     *mcptest.Upstream
	client *mcptest.Client
	result atomic.Pointer[string] // what every tool returns
	answer atomic.Pointer[string] // what the tool "held" was answered
}

func newEnds(t *testing.T, upstream func(...mcptest.Tool) *mcptest.Upstream, store string) *ends {
	e := &ends{t: t}
	tell := func(*mcptest.Call) (wire.Raw, *wire.Error) { return wire.Raw(*e.result.Load()), nil }
	ask := func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		answers, err := c.Ask(mcptest.Elicit("key", "?"))
		if err != nil {
			return nil, err
		}
		got := string(answers["key"])
		e.answer.Store(&got)
		return tell(c)
	}
	e.up = upstream(mcptest.Tool{Name: "plain", Run: tell}, mcptest.Tool{Name: "task", Run: tell}, mcptest.Tool{Name: "held", Run: ask})
	g := apptest.Start(t, zap.NewNop(), "store: "+strconv.Quote(store)+"\nupstreams: [{name: tools, url: "+e.up.Start(t)+"}]\n", policyFile)
	e.client = mcptest.NewClient(g.Endpoints()[0], mcptest.TasksAndInput)
	t.Cleanup(e.client.Close)
	return e
}

// call makes a call with arbitrary arguments and _meta, which must reach the
// upstream as they are, under an arbitrary id, which must come back.
func (e *ends) call(tool string, more ...string) mcptest.Reply {
	e.t.Helper()
	arguments, meta, id := e.Object(4), e.Value(3), e.ID()
	return e.send(tool, arguments, meta, id, more...)
}

func (e *ends) send(tool, arguments, meta, id string, more ...string) mcptest.Reply {
	e.t.Helper()
	params := fmt.Sprintf(`{"arguments":%s,"name":%q,"_meta":{"mine":%s},"other":%s`, arguments, tool, meta, meta)
	for _, m := range more {
		params += "," + m
	}
	before := len(e.up.Requests("tools/call"))
	r, err := e.client.Call(e.t.Context(), "tools/call", wire.Raw(params+"}"), mcptest.WithID(wire.Raw(id)))
	if err != nil {
		e.t.Fatal(err)
	}
	e.same("id", string(r.Message.ID), id)
	var received []mcptest.Received
	mcptest.Eventually(e.t, 20*time.Second, "the call or its answer reaches the upstream", func() bool {
		received = e.up.Requests("tools/call")
		return len(received) > before || len(more) > 0
	})
	got, rpc := received[len(received)-1].Message.ParamsObject()
	if rpc != nil {
		e.t.Fatal(rpc)
	}
	m, _ := got.Object("_meta")
	e.same("arguments", string(got.Get("arguments")), arguments)
	e.same("other", string(got.Get("other")), meta)
	e.same("_meta", string(m.Get("mine")), meta)
	return r
}

func (e *ends) returns() string {
	want := e.Result()
	e.result.Store(&want)
	return want
}

// failsOnce makes the next call fail with an arbitrary error.
func (e *ends) failsOnce() string {
	want := e.Error()
	e.up.Fail("tools/call", 1, func(w http.ResponseWriter, _ *http.Request) {
		calls := e.up.Requests("tools/call")
		id := calls[len(calls)-1].Message.ID
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(wire.Message{ID: id, Error: wire.Raw(want)}.Bytes())
	})
	return want
}

func (e *ends) atOnce() {
	want := e.returns()
	e.sameResult(e.call("plain").Message.Result, want)
	want = e.failsOnce()
	e.same("error", string(e.call("plain").Message.Error), want)
}

func (e *ends) asTask() {
	want := e.returns()
	e.sameResult(e.ended(e.call("task").TaskID(), "completed").Get("result"), want)
	want = e.failsOnce()
	e.same("error of a task", string(e.ended(e.call("task").TaskID(), "failed").Get("error")), want)
}

func (e *ends) ended(id, status string) wire.Object {
	e.t.Helper()
	task, err := e.client.WaitTask(e.t.Context(), id, status)
	if err != nil {
		e.t.Fatal(err)
	}
	return task
}

// held is a call that asks first. A retry repeats the arguments; its answer must
// reach the upstream as it is.
func (e *ends) held() {
	want := e.returns()
	arguments, meta, answer := e.Object(4), e.Value(3), e.Object(4)
	first := e.send("held", arguments, meta, e.ID())
	requests, _ := first.Result().Object("inputRequests")
	if len(requests) != 1 {
		e.t.Fatalf("no question: %s", first.Body)
	}
	more := []string{fmt.Sprintf(`"inputResponses":{%q:%s}`, requests[0].Name, answer)}
	if state := first.Result().Get("requestState"); state != nil {
		more = append(more, `"requestState":`+string(state))
	}
	r := e.send("held", arguments, meta, e.ID(), more...)
	e.sameResult(r.Message.Result, want)
	e.same("answer", compact(e.t, *e.answer.Load()), compact(e.t, answer))
}

// compact drops white space between tokens, of which a record keeps none in the
// answers that wait in it.
func compact(t *testing.T, raw string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(raw)); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return b.String()
}

func (e *ends) same(what, got, want string) {
	e.t.Helper()
	if got != want {
		e.t.Fatalf("%s: sent\n%s\ngot\n%s", what, want, got)
	}
}

// sameResult: resultType is added, and in _meta what server it was.
func (e *ends) sameResult(result wire.Raw, want string) {
	e.t.Helper()
	got, err := wire.ParseObject(result)
	if err != nil {
		e.t.Fatal(err)
	}
	got = got.Without("resultType")
	if meta, ok := got.Object("_meta"); ok {
		if meta = meta.Without(wire.MetaServerInfo); len(meta) == 0 {
			got = got.Without("_meta")
		} else {
			got = got.With("_meta", meta.Bytes())
		}
	}
	e.same("result", string(got.Bytes()), want)
}
