package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"taskgate/config"
	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// limit is how long a test waits for what must happen.
const limit = 20 * time.Second

const policyFile = `
defaults: {promoteAfter: 100ms, pollInterval: 50ms}
rules:
  - match: {tool: ask-first}
    input: mrtr
  - match: {tool: job}
    task: required
`

// configured is a gateway's configuration, over the upstream and a store.
func configured(t *testing.T, upstream, store string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policyFile), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Listen, cfg.AdminListen, cfg.Store = "127.0.0.1:0", "", config.Store(store)
	cfg.Policy, cfg.Timeouts.Drain, cfg.Audit.To = []string{file}, limit, "none"
	if err := cfg.SetUpstream(upstream); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// serve runs a gateway until stop is called, or the test ends.
func serve(t *testing.T, cfg config.Config, log *zap.Logger) (url string, stop func()) {
	t.Helper()
	a, err := New(t.Context(), cfg, "test", log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stopped := false
	stop = func() {
		if cancel(); stopped {
			return
		}
		stopped = true
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(stop)
	return a.Endpoints()[0], stop
}

func client(t *testing.T, url string) *mcptest.Client {
	c := mcptest.NewClient(url, mcptest.TasksAndInput)
	t.Cleanup(c.Close)
	return c
}

// echo returns its arguments; ask asks first; job takes until it is cancelled.
func tools() []mcptest.Tool {
	echo := func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		return wire.Raw(`{"_meta":{"x":1.0},"content":[],"structuredContent":` + string(c.Arguments.Bytes()) + `,"z":{"b":1,"a":2}}`), nil
	}
	ask := func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		answers, err := c.Ask(mcptest.Elicit("name", "s3cret question?"))
		if err != nil {
			return nil, err
		}
		return wire.Raw(`{"content":[],"structuredContent":` + string(answers["name"]) + `}`), nil
	}
	return []mcptest.Tool{
		{Name: "echo", Run: echo},
		{Name: "slow-echo", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) { c.Sleep(300 * time.Millisecond); return echo(c) }},
		{Name: "ask", Run: ask}, {Name: "ask-first", Run: ask},
		{Name: "job", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) { c.Sleep(limit); return mcptest.Text("late"), nil }},
		{Name: "forever", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) { c.Sleep(limit); return mcptest.Text("late"), nil }},
	}
}

func eras() map[string]*mcptest.Upstream {
	return map[string]*mcptest.Upstream{"legacy": mcptest.NewLegacy(tools()...), "modern": mcptest.NewModern(tools()...)}
}

const arguments = `{"password":"s3cret","n":9007199254740993,"f":1.0,"u":"\u00e9","o":{"z":1,"a":[1e2]}}`

// The whole way through real connectors, for both eras: at once, as a task,
// asked in a task and before one; then nothing is left, and the log tells no
// secrets.
func TestLifeOfCalls(t *testing.T) {
	for era, up := range eras() {
		t.Run(era, func(t *testing.T) {
			mcptest.Goroutines(t)
			core, logs := observer.New(zapcore.DebugLevel)
			url, stop := serve(t, configured(t, up.Start(t), "memory"), zap.New(core))
			c := client(t, url)
			var secrets []string
			call := func(tool string) mcptest.Reply {
				r, err := c.CallTool(t.Context(), tool, arguments)
				if err != nil {
					t.Fatal(err)
				}
				if id := r.TaskID(); id != "" {
					secrets = append(secrets, id)
				}
				return r
			}
			want := `{"_meta":{"x":1.0},"content":[],"structuredContent":` + arguments + `,"z":{"b":1,"a":2},"resultType":"complete"}`
			same(t, "result at once", string(call("echo").Message.Result), want)
			same(t, "result of a task", string(finished(t, c, call("slow-echo").TaskID()).Get("result")), want)

			const answer = `{"action":"accept","content":{"name":"s3cret","n":9007199254740993}}`
			asked := `{"content":[],"structuredContent":` + answer + `,"resultType":"complete"}`
			id := call("ask").TaskID()
			if _, err := c.Update(t.Context(), id, object(t, `{"q1":`+answer+`}`)); err != nil {
				t.Fatal(err)
			}
			same(t, "result after a question", string(finished(t, c, id).Get("result")), asked)
			same(t, "result after a retry", string(retry(t, c, call("ask-first"), answer).Message.Result), asked)

			id = call("job").TaskID()
			mcptest.Eventually(t, limit, "the job has begun", func() bool { return len(up.Calls("job", "")) == 1 })
			if _, err := c.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if _, err := c.WaitTask(t.Context(), id, "cancelled"); err != nil {
				t.Fatal(err)
			}
			mcptest.Eventually(t, limit, "the upstream was told", func() bool { return up.Calls("job", "")[0].Cancelled })
			stop()
			c.Close()
			tellsNo(t, logs, append(secrets, "s3cret"))
		})
	}
}

// retry answers the one question of an InputRequiredResult.
func retry(t *testing.T, c *mcptest.Client, first mcptest.Reply, answer string) mcptest.Reply {
	t.Helper()
	if first.Type() != "input_required" {
		t.Fatalf("no question: %s", first.Body)
	}
	requests, _ := first.Result().Object("inputRequests")
	params := object(t, `{"name":"ask-first","arguments":`+arguments+`}`).
		With("inputResponses", wire.Object{}.With(requests[0].Name, wire.Raw(answer)).Bytes())
	if state := first.Result().Get("requestState"); state != nil {
		params = params.With("requestState", state)
	}
	r, err := c.Call(t.Context(), "tools/call", params.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func finished(t *testing.T, c *mcptest.Client, id string) wire.Object {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	task, err := c.WaitTask(ctx, id, "completed")
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func tellsNo(t *testing.T, logs *observer.ObservedLogs, secrets []string) {
	t.Helper()
	for _, line := range logs.All() {
		text, err := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()).EncodeEntry(line.Entry, line.Context)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range secrets {
			if strings.Contains(text.String(), s) {
				t.Errorf("%q is in the log: %s", s, text)
			}
		}
	}
}

func TestHangUpReachesTheUpstream(t *testing.T) {
	for era, up := range eras() {
		t.Run(era, func(t *testing.T) {
			url, _ := serve(t, configured(t, up.Start(t), "memory"), zap.NewNop())
			ctx, hangUp := context.WithCancel(t.Context())
			answered := make(chan error, 1)
			go func() {
				_, err := client(t, url).CallTool(ctx, "forever", `{}`, mcptest.WithCapabilities(`{}`))
				answered <- err
			}()
			mcptest.Eventually(t, limit, "the call has reached the upstream", func() bool { return len(up.Calls("forever", "")) > 0 })
			hangUp()
			err := <-answered
			if err == nil {
				t.Fatal("there was an answer")
			}
			mcptest.Eventually(t, limit, "the upstream was told", func() bool { return up.Calls("forever", "")[0].Cancelled })
		})
	}
}

// A restart on the embedded store keeps what has ended and what waits for an
// answer, and ends honestly what nobody runs any more.
func TestRestart(t *testing.T) {
	up := mcptest.NewModern(tools()...)
	cfg := configured(t, up.Start(t), filepath.Join(t.TempDir(), "tasks.db"))
	cfg.Timeouts.Drain = 200 * time.Millisecond
	url, stop := serve(t, cfg, zap.NewNop())
	ids := map[string]string{}
	for _, tool := range []string{"slow-echo", "ask", "job"} {
		r, err := client(t, url).CallTool(t.Context(), tool, arguments)
		if err != nil {
			t.Fatal(err)
		}
		ids[tool] = r.TaskID()
	}
	finished(t, client(t, url), ids["slow-echo"])
	mcptest.Eventually(t, limit, "the job has begun", func() bool { return len(up.Calls("job", "")) == 1 })
	stop()

	url, _ = serve(t, cfg, zap.NewNop())
	c := client(t, url)
	finished(t, c, ids["slow-echo"])
	failed, err := c.WaitTask(t.Context(), ids["job"], "failed")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(failed.Get("error")); !strings.Contains(text, `"reason":"outcome_unknown"`) {
		t.Errorf("the job's error is %s", text)
	}
	if _, err := c.Update(t.Context(), ids["ask"], object(t, `{"q1":{"action":"accept"}}`)); err != nil {
		t.Fatal(err)
	}
	same(t, "result", string(finished(t, c, ids["ask"]).Get("result")), `{"content":[],"structuredContent":{"action":"accept"},"resultType":"complete"}`)
	same(t, "runs of the job", fmt.Sprint(len(up.Calls("job", ""))), "1")
}

func object(t *testing.T, json string) wire.Object {
	t.Helper()
	o, err := wire.ParseObject(wire.Raw(json))
	if err != nil {
		t.Fatalf("%s: %v", json, err)
	}
	return o
}

// same compares, less what the modern test server says of itself.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	const self = `"io.modelcontextprotocol/serverInfo":{"name":"mcptest-modern","version":"1"}`
	if got = strings.NewReplacer(`,"_meta":{`+self+`}`, "", ","+self, "").Replace(got); got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}
