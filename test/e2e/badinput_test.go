package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// refusal is what a client that does something wrong must see.
type refusal struct {
	status  int
	code    int
	message string // a part of it
}

func (r refusal) check(t *testing.T, reply mcptest.Reply) {
	t.Helper()
	e := errorOf(t, reply)
	if reply.Status != r.status || e.Code != r.code || !strings.Contains(e.Message, r.message) {
		t.Errorf("answer: %d, %d %q\nwant: %d, %d …%s…", reply.Status, e.Code, e.Message, r.status, r.code, r.message)
	}
}

func TestBadInputIsRefused(t *testing.T) {
	g := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL})
	c := newClient(t, g.Endpoint)
	good := goodBody()
	for _, tc := range []struct {
		name  string
		wrong []mcptest.Option // with a good call of echo
		want  refusal
	}{
		{"no body", body(nil),
			refusal{http.StatusBadRequest, wire.CodeParse, "body is empty"}},
		{"14 MiB", body(append(bytes.Clone(good), bytes.Repeat([]byte(" "), 14<<20)...)),
			refusal{http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, "limit"}},
		{"no JSON", body([]byte("{nope")),
			refusal{http.StatusBadRequest, wire.CodeParse, "Parse error"}},
		{"no UTF-8", body(bytes.Replace(good, []byte("hello"), []byte("\xff"), 1)),
			refusal{http.StatusBadRequest, wire.CodeParse, "Parse error"}},
		{"batch", body([]byte("[" + string(good) + "]")),
			refusal{http.StatusBadRequest, wire.CodeInvalidRequest, "batch"}},
		{"duplicate name", body(bytes.Replace(good, []byte(`"name":"echo"`), []byte(`"name":"echo","name":"get-env"`), 1)),
			refusal{http.StatusBadRequest, wire.CodeParse, "name"}},
		{"bytes after the message", body(append(bytes.Clone(good), "{}"...)),
			refusal{http.StatusBadRequest, wire.CodeParse, "after"}},
		{"no _meta", options(mcptest.WithoutMeta()),
			refusal{http.StatusBadRequest, wire.CodeInvalidParams, "_meta"}},
		{"no version in _meta", options(mcptest.WithMeta(wire.MetaVersion, nil)),
			refusal{http.StatusBadRequest, wire.CodeInvalidParams, wire.MetaVersion}},
		{"no capabilities in _meta", options(mcptest.WithMeta(wire.MetaCapabilities, nil)),
			refusal{http.StatusBadRequest, wire.CodeInvalidParams, wire.MetaCapabilities}},
		{"unknown version", options(mcptest.WithMeta(wire.MetaVersion, wire.Raw(`"1999-01-01"`)), mcptest.WithHeader(wire.HeaderVersion, "1999-01-01")),
			refusal{http.StatusBadRequest, wire.CodeUnsupportedVersion, "this endpoint speaks " + wire.Version}},
		{"other version in the header", options(mcptest.WithHeader(wire.HeaderVersion, "2025-11-25")),
			refusal{http.StatusBadRequest, wire.CodeHeaderMismatch, wire.HeaderVersion}},
		{"other method in the header", options(mcptest.WithHeader(wire.HeaderMethod, "tools/list")),
			refusal{http.StatusBadRequest, wire.CodeHeaderMismatch, wire.HeaderMethod}},
		{"no method in the header", options(mcptest.WithHeader(wire.HeaderMethod)),
			refusal{http.StatusBadRequest, wire.CodeHeaderMismatch, wire.HeaderMethod}},
		{"other name in the header", options(mcptest.WithHeader(wire.HeaderName, "get-env")),
			refusal{http.StatusBadRequest, wire.CodeHeaderMismatch, wire.HeaderName}},
		{"two names in headers", options(mcptest.WithHeader(wire.HeaderName, "echo", "echo")),
			refusal{http.StatusBadRequest, wire.CodeHeaderMismatch, wire.HeaderName}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.check(t, c.call(t, "echo", arguments{"message": "hello"}, tc.wrong...))
		})
	}
	t.Run("unknown method", func(t *testing.T) {
		refusal{http.StatusNotFound, wire.CodeMethodNotFound, "Method not found"}.check(t, c.send(t, "tools/nope", nil))
	})
	t.Run("unknown path", func(t *testing.T) {
		lost := newClient(t, strings.TrimSuffix(g.Endpoint, "/mcp")+"/nowhere")
		refusal{http.StatusNotFound, wire.CodeMethodNotFound, "No MCP endpoint"}.check(t, lost.send(t, "tools/list", nil))
	})
	t.Run("still well", func(t *testing.T) {
		if got := c.call(t, "echo", arguments{"message": "hello"}).Text(); got != "Echo: hello" {
			t.Errorf("result: %q", got)
		}
	})
}

// goodBody is a call of echo to be spoilt.
func goodBody() []byte {
	return []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},` +
		`"_meta":{"` + wire.MetaVersion + `":"` + wire.Version + `","` + wire.MetaCapabilities + `":{}}}}`)
}

func options(o ...mcptest.Option) []mcptest.Option { return o }

// body is the option to send b, which may be empty, with good headers.
func body(b []byte) []mcptest.Option {
	if b == nil {
		b = []byte{}
	}
	return options(mcptest.WithBody(b))
}

func TestTasksSurfaceRefuses(t *testing.T) {
	g := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL})
	c := newClient(t, g.Endpoint)
	unknown := taskParams(strings.Repeat("A", 26))
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		t.Run(method, func(t *testing.T) {
			params := unknown
			if method == "tasks/update" {
				params = params.With("inputResponses", wire.Raw("{}"))
			}
			refusal{http.StatusOK, wire.CodeInvalidParams, "task not found"}.check(t,
				c.send(t, method, params))
			refusal{http.StatusOK, wire.CodeInvalidParams, "task not found"}.check(t,
				c.send(t, method, params, mcptest.WithHeader(wire.HeaderName))) // the Go SDKs do not send it
			refusal{http.StatusBadRequest, wire.CodeHeaderMismatch, wire.HeaderName}.check(t,
				c.send(t, method, params, mcptest.WithHeader(wire.HeaderName, "another")))
			refusal{http.StatusBadRequest, wire.CodeMissingCapability, "capability"}.check(t,
				c.send(t, method, params, mcptest.WithCapabilities(mcptest.NoCapabilities)))
		})
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		refusal{http.StatusNotFound, wire.CodeMethodNotFound, method}.check(t, c.send(t, method, unknown))
	}
}

// An unknown tool is the upstream's business; its answer comes through.
func TestUnknownToolIsAnsweredByTheUpstream(t *testing.T) {
	t.Run("as a result", func(t *testing.T) {
		c := newClient(t, Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL}).Endpoint)
		r := resultOf(t, c.call(t, "nope", arguments{}))
		if string(r.Get("isError")) != "true" || !strings.Contains(text(t, r.Bytes()), "nope") {
			t.Errorf("result: %s", r.Bytes())
		}
	})
	t.Run("as an error", func(t *testing.T) {
		c := newClient(t, Start(t, Options{Upstream: GoSDKServer(t, false)}).Endpoint)
		e := errorOf(t, c.call(t, "nope", arguments{}))
		if e.Code != wire.CodeInvalidParams || e.Message != `unknown tool "nope"` {
			t.Errorf("error: %d %q", e.Code, e.Message)
		}
	})
}
