package e2e

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"taskgate/wire"
)

// refusal is what a client that does something wrong must see.
type refusal struct {
	status  int
	code    int
	message string // a part of it
}

func (r refusal) check(t *testing.T, a answer) {
	t.Helper()
	e := a.rpcError(t)
	if a.status != r.status || e.Code != r.code || !strings.Contains(e.Message, r.message) {
		t.Errorf("answer: %d, %d %q\nwant: %d, %d …%s…", a.status, e.Code, e.Message, r.status, r.code, r.message)
	}
}

func TestBadInputIsRefused(t *testing.T) {
	g := Start(t, Options{Upstream: StartEverything(t).URL})
	c := tasksCaller(g)
	for _, tc := range []struct {
		name string
		// spoil makes a good request bad; body and header are those of a
		// tools/call of echo.
		spoil func(body []byte, h http.Header) []byte
		want  refusal
	}{
		{"no body", func([]byte, http.Header) []byte { return nil },
			refusal{http.StatusBadRequest, wire.CodeParse, "body is empty"}},
		{"14 MiB", func(b []byte, _ http.Header) []byte { return append(b, bytes.Repeat([]byte(" "), 14<<20)...) },
			refusal{http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, "limit"}},
		{"no JSON", func([]byte, http.Header) []byte { return []byte("{nope") },
			refusal{http.StatusBadRequest, wire.CodeParse, "Parse error"}},
		{"no UTF-8", func(b []byte, _ http.Header) []byte { return bytes.Replace(b, []byte("hello"), []byte("\xff"), 1) },
			refusal{http.StatusBadRequest, wire.CodeParse, "Parse error"}},
		{"batch", func(b []byte, _ http.Header) []byte { return append(append([]byte("["), b...), ']') },
			refusal{http.StatusBadRequest, wire.CodeInvalidRequest, "batch"}},
		{"duplicate name", func(b []byte, _ http.Header) []byte {
			return bytes.Replace(b, []byte(`"name":"echo"`), []byte(`"name":"echo","name":"get-env"`), 1)
		}, refusal{http.StatusBadRequest, wire.CodeParse, "name"}},
		{"bytes after the message", func(b []byte, _ http.Header) []byte { return append(b, "{}"...) },
			refusal{http.StatusBadRequest, wire.CodeParse, "after"}},
		{"no _meta", replace(`"_meta":`, `"meta":`),
			refusal{http.StatusBadRequest, wire.CodeInvalidParams, "_meta"}},
		{"no version in _meta", replace(wire.MetaVersion, "x/version"),
			refusal{http.StatusBadRequest, wire.CodeInvalidParams, wire.MetaVersion}},
		{"no capabilities in _meta", replace(wire.MetaCapabilities, "x/capabilities"),
			refusal{http.StatusBadRequest, wire.CodeInvalidParams, wire.MetaCapabilities}},
		{"unknown version", func(b []byte, h http.Header) []byte {
			h.Set(wire.HeaderVersion, "1999-01-01")
			return bytes.Replace(b, []byte(wire.Version), []byte("1999-01-01"), 1)
		}, refusal{http.StatusBadRequest, wire.CodeUnsupportedVersion, "this endpoint speaks " + wire.Version}},
		{"other version in the header", setHeader(wire.HeaderVersion, "2025-11-25"),
			refusal{http.StatusBadRequest, wire.CodeHeaderMismatch, wire.HeaderVersion}},
		{"other method in the header", setHeader(wire.HeaderMethod, "tools/list"),
			refusal{http.StatusBadRequest, wire.CodeHeaderMismatch, wire.HeaderMethod}},
		{"no method in the header", setHeader(wire.HeaderMethod, ""),
			refusal{http.StatusBadRequest, wire.CodeHeaderMismatch, wire.HeaderMethod}},
		{"other name in the header", setHeader(wire.HeaderName, "get-env"),
			refusal{http.StatusBadRequest, wire.CodeHeaderMismatch, wire.HeaderName}},
		{"unknown method", func(b []byte, h http.Header) []byte {
			h.Set(wire.HeaderMethod, "tools/nope")
			return bytes.Replace(b, []byte("tools/call"), []byte("tools/nope"), 1)
		}, refusal{http.StatusNotFound, wire.CodeMethodNotFound, "Method not found"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body, header := c.request("tools/call", toolCall("echo", arguments{"message": "hello"}))
			body = tc.spoil(body, header)
			tc.want.check(t, c.raw(t, g.Endpoint, body, header))
		})
	}
	t.Run("unknown path", func(t *testing.T) {
		body, header := c.request("tools/list", nil)
		a := c.raw(t, strings.TrimSuffix(g.Endpoint, "/mcp")+"/nowhere", body, header)
		refusal{http.StatusNotFound, wire.CodeMethodNotFound, "No MCP endpoint"}.check(t, a)
	})
	t.Run("still well", func(t *testing.T) {
		r := c.send(t, "tools/call", toolCall("echo", arguments{"message": "hello"})).result(t)
		if got := text(t, r.Bytes()); got != "Echo: hello" {
			t.Errorf("result: %q", got)
		}
	})
}

func TestTasksSurfaceRefuses(t *testing.T) {
	g := Start(t, Options{Upstream: StartEverything(t).URL})
	c := tasksCaller(g)
	undeclared := c
	undeclared.capabilities = wire.Raw(declaresNone)
	unknown := taskParams(strings.Repeat("A", 26))
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		t.Run(method, func(t *testing.T) {
			params := unknown
			if method == "tasks/update" {
				params = params.With("inputResponses", wire.Raw("{}"))
			}
			refusal{http.StatusBadRequest, wire.CodeMissingCapability, "capability"}.check(t, undeclared.send(t, method, params))
			refusal{http.StatusOK, wire.CodeInvalidParams, "task not found"}.check(t, c.send(t, method, params))
			body, header := c.request(method, params)
			header.Set(wire.HeaderName, "another")
			refusal{http.StatusBadRequest, wire.CodeHeaderMismatch, wire.HeaderName}.check(t, c.raw(t, g.Endpoint, body, header))
		})
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		refusal{http.StatusNotFound, wire.CodeMethodNotFound, method}.check(t, c.send(t, method, unknown))
	}
}

// An unknown tool is the upstream's business; its answer comes through.
func TestUnknownToolIsAnsweredByTheUpstream(t *testing.T) {
	t.Run("as a result", func(t *testing.T) {
		c := tasksCaller(Start(t, Options{Upstream: StartEverything(t).URL}))
		r := c.send(t, "tools/call", toolCall("nope", arguments{})).result(t)
		if string(r.Get("isError")) != "true" || !strings.Contains(text(t, r.Bytes()), "nope") {
			t.Errorf("result: %s", r.Bytes())
		}
	})
	t.Run("as an error", func(t *testing.T) {
		c := tasksCaller(Start(t, Options{Upstream: GoSDKServer(t, false)}))
		e := c.send(t, "tools/call", toolCall("nope", arguments{})).rpcError(t)
		if e.Code != wire.CodeInvalidParams || e.Message != `unknown tool "nope"` {
			t.Errorf("error: %d %q", e.Code, e.Message)
		}
	})
}

// raw posts what it is given.
func (c caller) raw(t testing.TB, url string, body []byte, header http.Header) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := post(ctx, url, body, header)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func replace(old, with string) func([]byte, http.Header) []byte {
	return func(b []byte, _ http.Header) []byte { return bytes.Replace(b, []byte(old), []byte(with), 1) }
}

// setHeader sets a header, or takes it away when value is "".
func setHeader(name, value string) func([]byte, http.Header) []byte {
	return func(b []byte, h http.Header) []byte {
		if h.Del(name); value != "" {
			h.Set(name, value)
		}
		return b
	}
}
