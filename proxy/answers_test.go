package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"taskgate/internal/mcptest"
	"taskgate/policy"
	"taskgate/reqcoord"
	"taskgate/taskroute"
	"taskgate/taskrun"
	"taskgate/upstream"
	"taskgate/wire"
)

func TestStatusCodeAndReasonOfEveryError(t *testing.T) {
	rpc := func(code int) error { return wire.Errorf(code, "x") }
	for name, c := range map[string]struct {
		err    error
		status int
		code   int
		reason string
	}{
		"parse":               {rpc(wire.CodeParse), 400, -32700, ""},
		"invalid request":     {rpc(wire.CodeInvalidRequest), 400, -32600, ""},
		"method":              {rpc(wire.CodeMethodNotFound), 404, -32601, ""},
		"params":              {rpc(wire.CodeInvalidParams), 200, -32602, ""},
		"header":              {rpc(wire.CodeHeaderMismatch), 400, -32020, ""},
		"capability":          {taskrun.ErrTaskRequired, 400, -32021, ""},
		"version":             {rpc(wire.CodeUnsupportedVersion), 400, -32022, ""},
		"upstream's own":      {&upstreamFailure{wire.Raw(`{"code":-32601,"message":"no"}`)}, 404, -32601, ""},
		"upstream's internal": {&upstreamFailure{wire.Raw(`{"code":-32603,"message":"no"}`)}, 200, -32603, ""},
		"malformed id":        {taskroute.ErrMalformed, 200, -32602, ""},
		"unknown task":        {fmt.Errorf("read: %w", taskroute.ErrNotFound), 200, -32602, ""},
		"expired task":        {taskroute.ErrExpired, 200, -32602, ""},
		"unreadable task":     {storeError(fmt.Errorf("read: %w", taskroute.ErrUnreadable)), 200, -32603, "task_unreadable"},
		"store":               {storeError(errors.New("down")), 503, -32603, "store_unavailable"},
		"store on a retry":    {fmt.Errorf("%w: down", taskrun.ErrStore), 200, -32603, "store_unavailable"},
		"request state":       {taskrun.ErrBadState, 200, -32602, "invalid_request_state"},
		"busy":                {&reqcoord.OverloadError{}, 429, -32603, "overloaded"},
		"too many tasks":      {&taskroute.OverLimitError{Limit: taskroute.Usage{Open: 1}}, 429, -32603, "too_many_open_tasks"},
		"too much stored":     {&taskroute.OverLimitError{Limit: taskroute.Usage{Bytes: 1}}, 429, -32603, "too_much_stored"},
		"unreachable":         {&upstream.Error{Kind: upstream.Unreachable, Err: errors.New("refused")}, 200, -32603, "upstream_unreachable"},
		"broken off":          {&upstream.Error{Kind: upstream.Broken, MayHaveRun: true, Err: errors.New("EOF")}, 200, -32603, "outcome_unknown"},
		"unauthorized":        {&upstream.Error{Kind: upstream.Unauthorized, Status: 401, Err: errors.New("401")}, 200, -32603, "upstream_unauthorized"},
		"too slow":            {errForwardTimeout, 200, -32603, "timeout"},
		"anything else":       {errors.New("s3cret path"), 200, -32603, "internal"},
	} {
		status, raw := answerError(c.err)
		e := wire.ParseError(raw)
		check(t, name+": status", status, c.status)
		check(t, name+": code", e.Code, c.code)
		data, _ := wire.ParseObject(e.Data)
		reason, _ := wire.String(data.Get("reason"))
		check(t, name+": reason", reason, c.reason)
		if strings.Contains(e.Message, "s3cret") {
			t.Errorf("%s: the message shows %q", name, e.Message)
		}
	}
}

// A mesh sends a POST again on 5xx: an error after which the tool may have run
// must not look like one.
func TestWhatMayHaveRunIsNeverA5xx(t *testing.T) {
	for _, kind := range []upstream.ErrorKind{upstream.Unreachable, upstream.TimedOut, upstream.Unauthorized, upstream.Refused,
		upstream.Broken, upstream.TooLarge, upstream.Incompatible, upstream.Full, upstream.Closed} {
		if status, _ := answerError(&upstream.Error{Kind: kind, MayHaveRun: true, Err: errors.New("x")}); status >= 429 {
			t.Errorf("%s: status %d", kind, status)
		}
	}
}

func TestMethodThatTheUpstreamRefusesBarely(t *testing.T) {
	refused := func(status int, mayHaveRun bool) func(s *setup) {
		return func(s *setup) {
			s.up.call = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
				return upstream.Reply{}, &upstream.Error{Kind: upstream.Refused, Status: status, MayHaveRun: mayHaveRun, Err: errors.New("x")}
			}
		}
	}
	for _, c := range []struct {
		method     string
		status     int
		mayHaveRun bool
		code       int
	}{
		{"unknown/method", 400, false, wire.CodeMethodNotFound},
		{"unknown/method", 500, true, wire.CodeInternal},
		{"prompts/get", 400, false, wire.CodeInternal},
	} {
		g := newGateway(t, refused(c.status, c.mayHaveRun))
		r := g.ok(g.client("ann").Call(t.Context(), c.method, wire.Raw(`{"name":"p"}`)))
		check(t, c.method, r.Err().Code, c.code)
	}
}

func TestMethodsOfTasksWantTheExtension(t *testing.T) {
	g := newGateway(t)
	for _, declared := range []string{`{}`, `{"tasks":{"requests":{"tools":{"call":{}}}}}`, `{"extensions":{"other":{}}}`} {
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			r := g.ok(g.client("ann").Call(t.Context(), method, wire.Raw(`{"taskId":"no id at all"}`), mcptest.WithCapabilities(declared)))
			check(t, method+": status", r.Status, 400)
			check(t, method+": error", string(r.Message.Error), `{"code":-32021,"message":"Missing required client capability",`+
				`"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`)
		}
	}
}

func TestRequiredToolWithoutTheExtension(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.decision.Task = policy.Required })
	r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`, mcptest.WithCapabilities(`{}`)))
	check(t, "status", r.Status, 400)
	check(t, "code", r.Err().Code, wire.CodeMissingCapability)
	check(t, "calls", len(g.up.got()), 0)
}

// asks is an upstream with one question that then returns its answer.
func asks(ctx context.Context, _ upstream.Request, h upstream.Handler) (upstream.Reply, error) {
	answer, failure := h.Ask(ctx, upstream.Question{Method: wire.MethodElicit, Params: wire.Raw(`{"message":"n?","requestedSchema":{}}`)})
	if failure != nil {
		return upstream.Reply{}, ctx.Err()
	}
	return result(`{"content":[],"structuredContent":` + string(answer) + `}`), nil
}

func TestLifeOfATask(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.up.call = asks })
	c := g.client("ann")
	made := g.ok(c.CallTool(t.Context(), "tool", `{}`))
	check(t, "resultType", made.Type(), "task")
	for _, name := range []string{"inputRequests", "result", "error", "requestState", "task", "ttl", "pollInterval"} {
		check(t, "handle's "+name, string(made.Result().Get(name)), "")
	}
	id := made.TaskID()
	got := g.ok(c.Task(t.Context(), id))
	check(t, "resultType", got.Type(), "complete")
	check(t, "inputRequests", string(got.Result().Get("inputRequests")),
		`{"q1":{"method":"elicitation/create","params":{"message":"n?","requestedSchema":{}}}}`)

	for responses, code := range map[string]int{`[]`: -32602, `"x"`: -32602, `{"q1":null}`: -32602, `{"q1":"yes"}`: -32602} {
		r := g.ok(c.Call(t.Context(), "tasks/update", wire.Raw(`{"taskId":"`+id+`","inputResponses":`+responses+`}`)))
		check(t, responses+": code", r.Err().Code, code)
	}
	r := g.ok(c.Call(t.Context(), "tasks/update", wire.Raw(`{"taskId":"`+id+`","inputResponses":{"unknown":{}}}`)))
	check(t, "acknowledgement", string(r.Message.Result), `{"resultType":"complete"}`)
	r = g.ok(c.Call(t.Context(), "tasks/update", wire.Raw(`{"taskId":"`+id+`","inputResponses":{"q1":{"n":9007199254740993}}}`)))
	check(t, "acknowledgement", string(r.Message.Result), `{"resultType":"complete"}`)
	done, err := c.WaitTask(t.Context(), id, "completed")
	if err != nil {
		t.Fatal(err)
	}
	check(t, "result", string(done.Get("result")), `{"content":[],"structuredContent":{"n":9007199254740993},"resultType":"complete"}`)
	r = g.ok(c.Cancel(t.Context(), id))
	check(t, "acknowledgement", string(r.Message.Result), `{"resultType":"complete"}`)
	check(t, "status", string(g.ok(c.Task(t.Context(), id)).Result().Get("status")), `"completed"`)
}

// A task keeps the ttl and the poll interval that its handle told, whatever
// policy says by now.
func TestTTLStaysWhatItWas(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.up.call, s.decision.TTL, s.decision.PollInterval = asks, time.Hour, time.Second })
	c := g.client("ann")
	id := g.ok(c.CallTool(t.Context(), "tool", `{}`)).TaskID()
	g.opts.Decide = func(policy.Query) policy.Decision { return policy.Decision{TTL: time.Minute} }
	got := g.ok(c.Task(t.Context(), id)).Result()
	check(t, "ttlMs", string(got.Get("ttlMs")), "3600000")
	check(t, "pollIntervalMs", string(got.Get("pollIntervalMs")), "1000")
}

func TestSomebodyElsesTaskIsUnknown(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.up.call = asks })
	id := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`)).TaskID()
	bob := g.client("bob")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		var answers []string
		for _, id := range []string{id, taskroute.NewID()} {
			r := g.ok(bob.Call(t.Context(), method, wire.Raw(`{"taskId":"`+id+`","inputResponses":{}}`), mcptest.WithID(wire.Raw("1"))))
			answers = append(answers, fmt.Sprint(r.Status, string(r.Body)))
		}
		check(t, method, answers[0], answers[1])
		check(t, method, answers[0], `200{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid params: task not found"}}`)
	}
	check(t, "status", string(g.ok(g.client("ann").Task(t.Context(), id)).Result().Get("status")), `"input_required"`)
}

func TestTasksWhileTheStoreIsDown(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.up.call = asks })
	c := g.client("ann")
	id := g.ok(c.CallTool(t.Context(), "tool", `{}`)).TaskID()
	g.backend.set(errors.New("down"))
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		r := g.ok(c.Call(t.Context(), method, wire.Raw(`{"taskId":"`+id+`","inputResponses":{}}`)))
		check(t, method+": status", r.Status, 503)
		check(t, method+": code", r.Err().Code, wire.CodeInternal)
		check(t, method+": data", string(r.Err().Data), `{"reason":"store_unavailable","retriable":true}`)
		check(t, method+": Retry-After", r.Header.Get("Retry-After"), "1")
	}
	g.backend.set(nil)
	check(t, "status", string(g.ok(c.Task(t.Context(), id)).Result().Get("status")), `"input_required"`)
}

func TestRetryOfAHeldCall(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.up.call, s.decision.Input = asks, policy.InputMRTR })
	c := g.client("ann")
	first := g.ok(c.CallTool(t.Context(), "tool", `{"a":1}`))
	check(t, "resultType", first.Type(), "input_required")
	check(t, "inputRequests", string(first.Result().Get("inputRequests")),
		`{"q1":{"method":"elicitation/create","params":{"message":"n?","requestedSchema":{}}}}`)
	retry := func(arguments, responses string) mcptest.Reply {
		return g.ok(c.Call(t.Context(), "tools/call", wire.Raw(`{"name":"tool","arguments":`+arguments+responses+`,"requestState":`+string(first.Result().Get("requestState"))+`}`)))
	}
	bad := retry(`{"a":2}`, `,"inputResponses":{"q1":{"n":1}}`)
	check(t, "status", bad.Status, 200)
	check(t, "error", string(bad.Message.Error), `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state","retriable":false}}`)
	check(t, "code of a bad answer", retry(`{"a":1}`, `,"inputResponses":{"q1":1}`).Err().Code, wire.CodeInvalidParams)
	again := retry(`{"a":1}`, "")
	check(t, "resultType without an answer", again.Type(), "input_required")
	first = again
	check(t, "result", string(retry(`{"a":1}`, `,"inputResponses":{"q1":{"n":1}}`).Message.Result),
		`{"content":[],"structuredContent":{"n":1},"resultType":"complete"}`)
}

func TestForwardedRequestTimesOut(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		r := g.ok(g.client("ann").Call(t.Context(), "prompts/get", wire.Raw(`{"name":"p"}`)))
		check(t, "error", string(r.Message.Error), `{"code":-32603,"message":"The upstream did not answer in time","data":{"reason":"timeout"}}`)
	}, func(s *setup) { s.up.call = waits })
}

// An upstream that is asked for its tools and does not answer costs the first
// call a little, and the others nothing.
func TestCallDoesNotWaitForTheListOfTools(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		for _, want := range []time.Duration{2 * time.Second, 0} {
			began := time.Now()
			g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`))
			check(t, "it took", time.Since(began), want)
		}
	}, func(s *setup) { s.up.list = waits })
}

// The list of tools takes longer than the time after which a waiting client gets
// headers; a caller who may not do this is refused by status all the same.
func TestRefusalAfterASlowListOfTools(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`))
		check(t, "status", r.Status, http.StatusForbidden)
		check(t, "content type", r.Header.Get("Content-Type"), "application/json")
		check(t, "challenged", strings.Contains(r.Header.Get("WWW-Authenticate"), `scope="write"`), true)
	}, func(s *setup) { s.up.list = waits; s.decision.Scopes = []string{"write"} })
}

func TestLogsKeepSecrets(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	failures := []error{
		&upstream.Error{Kind: upstream.Refused, MayHaveRun: true, Status: 500, Err: errors.New(`HTTP 500: "s3cret"`)},
		&upstream.Error{Kind: upstream.Broken, MayHaveRun: true, Err: errors.New(`unexpected "s3cret"`)},
		&upstream.Error{Kind: upstream.Unreachable, Err: errors.New("connection refused")},
	}
	var next error
	g := newGateway(t, func(s *setup) {
		s.Log, s.HoldAfter = zap.New(core), time.Millisecond
		s.up.call = func(ctx context.Context, r upstream.Request, h upstream.Handler) (upstream.Reply, error) {
			if next != nil {
				return upstream.Reply{}, next
			}
			return asks(ctx, r, h)
		}
	})
	c := g.client("s3cret subject")
	c.Header.Set("Authorization", "Bearer s3cret")
	id := g.ok(c.CallTool(t.Context(), "tool", `{"password":"s3cret"}`)).TaskID()
	for _, next = range failures {
		g.ok(c.CallTool(t.Context(), "tool", `{"password":"s3cret"}`))
		g.ok(c.Call(t.Context(), "s3cret/method", wire.Raw(`{}`)))
	}
	g.backend.set(errors.New("down"))
	g.ok(c.Task(t.Context(), id))
	g.ok(c.Call(t.Context(), "tasks/update", wire.Raw(`{"taskId":"`+id+`","inputResponses":{"q1":{"x":"s3cret"}}}`)))
	g.backend.set(nil)
	if logs.Len() < 8 {
		t.Errorf("only %d lines: the story was not told", logs.Len())
	}
	for _, line := range logs.All() {
		text, err := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()).EncodeEntry(line.Entry, line.Context)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), "s3cret") || strings.Contains(text.String(), id) {
			t.Errorf("in the log: %s", text)
		}
	}
}
