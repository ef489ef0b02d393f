package legacyfront_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

func sum(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

func hello(*mcptest.Call) (wire.Raw, *wire.Error) { return mcptest.Text("hello"), nil }

func TestVersionIsAgreedOn(t *testing.T) {
	a := gateway(t, mcptest.NewLegacy().Start(t), "memory")
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		open(t, a, version, `{}`)
	}
	c := &client{t: t, caller: "ann"}
	for _, unknown := range []string{"1999-01-01", "2026-07-28"} {
		r := c.post(a, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+unknown+`","capabilities":{}}}`)
		check(t, unknown, string(r.result().Get("protocolVersion")), `"2025-11-25"`)
	}
}

func TestInitializeTellsWhatTheServerCan(t *testing.T) {
	up := mcptest.NewLegacy()
	up.Capabilities = wire.Raw(`{"tools":{"listChanged":true},"prompts":{},"tasks":{"list":{}}}`)
	c := &client{t: t, caller: "ann"}
	r := c.post(gateway(t, up.Start(t), "memory"), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":`+everything+`}}`)
	result := r.result()
	check(t, "capabilities", string(result.Get("capabilities")), `{"tools":{"listChanged":true},"prompts":{}}`)
	check(t, "serverInfo", string(result.Get("serverInfo")), `{"name":"mcptest-legacy","version":"1"}`)
	for _, r := range c.session {
		if r < 0x21 || r > 0x7e {
			t.Errorf("session id %q is not visible ASCII", c.session)
		}
	}
}

// A session needs nothing of the replica that opened it, and is over for all of
// them at once.
func TestSessionIsGoodAtEveryReplicaUntilItIsEnded(t *testing.T) {
	a, b := replicas(t, mcptest.NewLegacy(mcptest.Tool{Name: "hello", Run: hello}))
	c := open(t, a, "2025-06-18", `{}`)
	for _, url := range []string{a, b} {
		check(t, "result", string(c.call(url, "hello").result().Bytes()), `{"content":[{"text":"hello","type":"text"}]}`)
	}
	check(t, "DELETE", c.do(http.MethodDelete, b, "").StatusCode, http.StatusNoContent)
	for _, url := range []string{a, b} {
		r := c.call(url, "hello")
		check(t, "status afterwards", r.StatusCode, http.StatusNotFound)
		check(t, "code afterwards", r.error().Code, -32001)
		check(t, "GET afterwards", c.do(http.MethodGet, url, "").StatusCode, http.StatusNotFound)
	}
}

func TestSessionIsOfItsCallerAndEndpoint(t *testing.T) {
	a := gateway(t, mcptest.NewLegacy(mcptest.Tool{Name: "hello", Run: hello}).Start(t), "memory")
	c := open(t, a, "2025-06-18", `{}`)
	status := func(change func(*client), url string) int {
		other := *c
		change(&other)
		return other.call(url, "hello").StatusCode
	}
	check(t, "its own", status(func(*client) {}, a), http.StatusOK)
	check(t, "of another caller", status(func(c *client) { c.caller = "bob" }, a), http.StatusNotFound)
	check(t, "of a stranger", status(func(c *client) { c.caller = "eve" }, a), http.StatusUnauthorized)
	check(t, "of another endpoint", status(func(*client) {}, strings.TrimSuffix(a, "/mcp")+"/same"), http.StatusNotFound)
	check(t, "forged", status(func(c *client) { c.session = c.session[1:] + c.session[:1] }, a), http.StatusNotFound)
	check(t, "made up", status(func(c *client) { c.session = "1868a90c" }, a), http.StatusNotFound)
	check(t, "none", status(func(c *client) { c.session = "" }, a), http.StatusBadRequest)
	check(t, "of an unknown version", status(func(c *client) { c.version = "2025-01-01" }, a), http.StatusBadRequest)
}

func TestBadRequestsSayWhatIsWrong(t *testing.T) {
	a := gateway(t, mcptest.NewLegacy().Start(t), "memory")
	c := open(t, a, "2025-03-26", `{}`)
	large := `{"experimental":{"x":"` + strings.Repeat("x", 4<<10) + `"}}`
	for _, b := range []struct {
		body string
		code int
		text string
	}{
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, wire.CodeInvalidRequest, "batches are not part"},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, wire.CodeInvalidParams, "params.protocolVersion is missing"},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":` + large + `}}`, wire.CodeInvalidParams, "larger than 2048 bytes"},
		{`{"jsonrpc":"2.0","id":"q.1.x","result":{}}`, wire.CodeInvalidRequest, "no question of this session"},
		{`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}`, wire.CodeInvalidParams, "params.level must be one of"},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}`, wire.CodeMethodNotFound, "does not tell of updated resources"},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{}}`, wire.CodeInvalidParams, "params.uri is missing"},
		{`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, wire.CodeMethodNotFound, "not part of 2025-03-26"},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x"}}`, wire.CodeMethodNotFound, "not part of 2025-03-26"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"NAME":"x"}}`, wire.CodeInvalidRequest, `could be taken for "name"`},
	} {
		e := c.post(a, b.body).error()
		if e.Code != b.code || !strings.Contains(e.Message, b.text) {
			t.Errorf("%.60s:\ngot  %v\nwant %s (%d)", b.body, e, b.text, b.code)
		}
	}
}

// An error that answers a request is no failure of HTTP in this era; 404 would
// even end the session.
func TestErrorsHaveTheirOldForm(t *testing.T) {
	up := mcptest.NewLegacy()
	up.Handle("resources/read", func(wire.Object) (wire.Raw, *wire.Error) {
		return nil, wire.Errorf(wire.CodeLegacyNotFound, "Resource not found").WithData(map[string]string{"uri": "a:b"})
	})
	a := gateway(t, up.Start(t), "memory")
	c := open(t, a, "2025-06-18", `{}`)
	r := c.request(a, "resources/read", `{"uri":"a:b"}`)
	check(t, "status", r.StatusCode, http.StatusOK)
	check(t, "code", r.error().Code, wire.CodeLegacyNotFound)
	r = c.request(a, "no/such", `{}`)
	check(t, "status", r.StatusCode, http.StatusOK)
	check(t, "code", r.error().Code, wire.CodeMethodNotFound)
	check(t, "ping", string(c.request(a, "ping", `{}`).result().Bytes()), `{}`)
}
