package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

func readResponse(t *testing.T, r io.Reader) (*http.Response, []byte) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(r), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("the answer broke off: %v", err)
	}
	return resp, body
}

const goodMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// Every request that is wrong in one way gets its status, code and reason, and
// the upstream never hears of it.
func TestBadRequests(t *testing.T) {
	body := func(s string) mcptest.Option { return mcptest.WithBody([]byte(s)) }
	header, meta := mcptest.WithHeader, mcptest.WithMeta
	for name, c := range map[string]struct {
		option  mcptest.Option
		status  int
		code    int
		message string // a part of it
		id      string
	}{
		"no body":                {body(""), 400, -32700, "the body is empty", "null"},
		"white space":            {body(" \r\n\t"), 400, -32700, "the body is empty", "null"},
		"not JSON":               {body(`{"jsonrpc":"2.0","id":1,`), 400, -32700, "Parse error", "null"},
		"byte order mark":        {body("\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`), 400, -32700, "Parse error", "null"},
		"invalid UTF-8":          {body(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + "\xff" + `"}}`), 400, -32700, "UTF-8", "null"},
		"trailing bytes":         {body(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}{"id":2}`), 400, -32700, "after the JSON value", "null"},
		"batch":                  {body(`[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]`), 400, -32600, "batches", "null"},
		"batch after a space":    {body("\n [1]"), 400, -32600, "batches", "null"},
		"empty batch":            {body(`[]`), 400, -32600, "batches", "null"},
		"a string":               {body(`"tools/call"`), 400, -32600, "object", "null"},
		"duplicate method":       {body(`{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`), 400, -32700, "duplicate", "null"},
		"duplicate name":         {body(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`), 400, -32700, "duplicate", "null"},
		"duplicate argument":     {body(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":{"y":1,"\u0079":2}}}}`), 400, -32700, "duplicate", "null"},
		"case variant":           {body(`{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"x"}`), 400, -32600, `"Method" could be taken for "method"`, "1"},
		"folding variant":        {body(`{"jsonrpc":"2.0","id":1,"method":"tools/call","param\u017f":{}}`), 400, -32600, `could be taken for "params"`, "1"},
		"case variant of name":   {body(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","Name":"x",` + goodMeta + `}}`), 400, -32600, `"Name" of params could be taken for "name"`, "1"},
		"no jsonrpc":             {body(`{"id":1,"method":"tools/call"}`), 400, -32600, `"jsonrpc"`, "1"},
		"id null":                {body(`{"jsonrpc":"2.0","id":null,"method":"tools/call"}`), 400, -32600, `"id"`, "null"},
		"id object":              {body(`{"jsonrpc":"2.0","id":{},"method":"tools/call"}`), 400, -32600, `"id"`, "null"},
		"params an array":        {body(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":[1]}`), 400, -32600, `"params" must be an object`, `"x"`},
		"a response":             {body(`{"jsonrpc":"2.0","id":7,"result":{}}`), 400, -32600, "clients send requests only", "7"},
		"method and result":      {body(`{"jsonrpc":"2.0","id":7,"method":"x","result":{}}`), 400, -32600, "only one of", "7"},
		"no _meta":               {mcptest.WithoutMeta(), 400, -32602, "_meta is missing", "1"},
		"_meta a string":         {body(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":"x"}}`), 400, -32602, "_meta is missing or no object", "1"},
		"no version":             {meta(wire.MetaVersion, nil), 400, -32602, wire.MetaVersion, "1"},
		"no capabilities":        {meta(wire.MetaCapabilities, nil), 400, -32602, wire.MetaCapabilities, "1"},
		"capabilities no object": {meta(wire.MetaCapabilities, wire.Raw(`[]`)), 400, -32602, wire.MetaCapabilities, "1"},
		"case variant in _meta":  {meta("io.modelcontextprotocol/clientcapabilities", wire.Raw(`{}`)), 400, -32600, "could be taken for", "1"},
		"version differs":        {meta(wire.MetaVersion, wire.Raw(`"v999"`)), 400, -32020, "Mcp-Protocol-Version does not match", "1"},
		"version header differs": {header(wire.HeaderVersion, "v999"), 400, -32020, "Mcp-Protocol-Version does not match", "1"},
		"no version header":      {header(wire.HeaderVersion), 400, -32020, "Mcp-Protocol-Version is missing", "1"},
		"two version headers":    {header(wire.HeaderVersion, wire.Version, wire.Version), 400, -32020, "is there 2 times", "1"},
		"no method header":       {header(wire.HeaderMethod), 400, -32020, "Mcp-Method is missing", "1"},
		"method header differs":  {header(wire.HeaderMethod, "tasks/get"), 400, -32020, "Mcp-Method does not match", "1"},
		"method in other case":   {header(wire.HeaderMethod, "TOOLS/CALL"), 400, -32020, "Mcp-Method does not match", "1"},
		"two method headers":     {header(wire.HeaderMethod, "tools/call", "tools/call"), 400, -32020, "is there 2 times", "1"},
		"no name header":         {header(wire.HeaderName), 400, -32020, "Mcp-Name is missing", "1"},
		"name header differs":    {header(wire.HeaderName, "other"), 400, -32020, "Mcp-Name does not match", "1"},
		"two name headers":       {header(wire.HeaderName, "tool", "other"), 400, -32020, "is there 2 times", "1"},
		"bad Base64":             {header(wire.HeaderName, "=?base64?dG9vbA?="), 400, -32020, "bad Base64", "1"},
		"other Base64":           {header(wire.HeaderName, "=?base64?b3RoZXI=?="), 400, -32020, "Mcp-Name does not match", "1"},
		"no ASCII":               {header(wire.HeaderName, "t\xc3\xb6ol"), 400, -32020, "is not allowed", "1"},
		"no name":                {body(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + goodMeta + `}}`), 400, -32602, "params.name is missing", "1"},
		"text":                   {header("Content-Type", "text/plain"), 415, -32600, "application/json", "null"},
		"no content type":        {header("Content-Type"), 415, -32600, "application/json", "null"},
		"form":                   {header("Content-Type", "application/x-www-form-urlencoded"), 415, -32600, "application/json", "null"},
		"foreign origin":         {header("Origin", "https://evil.example"), 403, -32600, "Origin", "null"},
		"null origin":            {header("Origin", "null"), 403, -32600, "Origin", "null"},
		"tricky origin":          {header("Origin", "http://localhost.evil.example"), 403, -32600, "Origin", "null"},
		"one origin of two":      {header("Origin", "http://localhost", "https://evil.example"), 403, -32600, "Origin", "null"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t)
			r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`, c.option))
			check(t, "status", r.Status, c.status)
			check(t, "content type", r.Header.Get("Content-Type"), "application/json")
			var answer struct {
				ID    json.RawMessage
				Error wire.Error
			}
			if err := json.Unmarshal(r.Body, &answer); err != nil {
				t.Fatalf("%s: %v", r.Body, err)
			}
			check(t, "code", answer.Error.Code, c.code)
			check(t, "id", string(answer.ID), c.id)
			if !strings.Contains(answer.Error.Message, c.message) {
				t.Errorf("the message is %q, which does not say %q", answer.Error.Message, c.message)
			}
			check(t, "calls at the upstream", len(g.up.got()), 0)
		})
	}
}

func TestUnsupportedVersion(t *testing.T) {
	g := newGateway(t)
	r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`, mcptest.WithHeader(wire.HeaderVersion, "v999.0.0"), mcptest.WithMeta(wire.MetaVersion, wire.Raw(`"v999.0.0"`))))
	check(t, "status", r.Status, 400)
	check(t, "code", r.Err().Code, wire.CodeUnsupportedVersion)
	check(t, "data", string(r.Err().Data), `{"requested":"v999.0.0","supported":["2026-07-28"]}`)
}

// Both eras share an endpoint. The body decides, then the headers; a request of
// this era is never taken for an older one.
func TestOlderClientsAreHandedOn(t *testing.T) {
	g := newGateway(t, func(s *setup) {
		s.Legacy = func(w http.ResponseWriter, _ *http.Request, v *Visit, msg wire.Message) {
			w.Header().Set("X-Legacy", v.Path()+" "+v.Principal()+" "+msg.Method)
			w.WriteHeader(http.StatusAccepted)
		}
	})
	old := []mcptest.Option{mcptest.WithoutMeta(), mcptest.WithHeader(wire.HeaderVersion)}
	for name, c := range map[string]struct {
		method  string
		options []mcptest.Option
		legacy  bool
	}{
		"initialize":                            {"initialize", old, true},
		"initialize with Mcp-Method":            {"initialize", append(old, mcptest.WithHeader(wire.HeaderMethod, "initialize")), true},
		"initialize of this era":                {"initialize", nil, false},
		"in a session":                          {"tools/list", append(old, mcptest.WithHeader(wire.HeaderSession, "s")), true},
		"of an older version":                   {"tools/list", append(old, mcptest.WithHeader(wire.HeaderVersion, "2025-06-18")), true},
		"of this version without what it wants": {"tools/list", []mcptest.Option{mcptest.WithoutMeta()}, false},
		"of none":                               {"tools/list", old, false},
		"this era in an old session":            {"tools/list", []mcptest.Option{mcptest.WithHeader(wire.HeaderSession, "s")}, false},
		"this era with an old header":           {"tools/list", []mcptest.Option{mcptest.WithHeader(wire.HeaderVersion, "2025-06-18")}, false},
	} {
		r := g.ok(g.client("ann").Call(t.Context(), c.method, wire.Raw(`{}`), c.options...))
		want := ""
		if c.legacy {
			want = "/mcp acme/ann " + c.method
		}
		check(t, name, r.Header.Get("X-Legacy"), want)
	}
}

func TestGoodHeaders(t *testing.T) {
	g := newGateway(t)
	c := g.client("ann")
	for name, options := range map[string][]mcptest.Option{
		"plain":                 nil,
		"white space":           {mcptest.WithHeader(wire.HeaderName, " tool \t")},
		"Base64":                {mcptest.WithHeader(wire.HeaderName, "=?base64?dG9vbA==?=")},
		"charset":               {mcptest.WithHeader("Content-Type", "application/json; charset=utf-8")},
		"origin of the machine": {mcptest.WithHeader("Origin", "http://localhost:3000")},
	} {
		r := g.ok(c.CallTool(t.Context(), "tool", `{}`, options...))
		check(t, name+": status", r.Status, 200)
	}
	r := g.ok(c.CallTool(t.Context(), "wörk \u2713", `{}`))
	check(t, "a name in Base64: status", r.Status, 200)
	r = g.ok(c.Task(t.Context(), strings.Repeat("A", 26), mcptest.WithHeader(wire.HeaderName)))
	check(t, "no Mcp-Name on tasks/get: code", r.Err().Code, wire.CodeInvalidParams)
	r = g.ok(c.Cancel(t.Context(), strings.Repeat("A", 26), mcptest.WithHeader(wire.HeaderName, "other")))
	check(t, "another Mcp-Name on tasks/cancel: code", r.Err().Code, wire.CodeHeaderMismatch)
}

func TestOtherHTTPMethods(t *testing.T) {
	g := newGateway(t)
	for _, method := range []string{"GET", "DELETE", "PUT", "OPTIONS", "HEAD"} {
		req, err := http.NewRequestWithContext(t.Context(), method, g.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := g.client("ann").HTTP.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		check(t, method+": status", resp.StatusCode, 405)
		check(t, method+": Allow", resp.Header.Get("Allow"), "POST")
	}
}

func TestUnknownPath(t *testing.T) {
	g := newGateway(t)
	c := g.client("ann")
	for _, path := range []string{"/other", "/", "//mcp"} {
		c.URL = strings.TrimSuffix(g.url, "/mcp") + path
		r := g.ok(c.CallTool(t.Context(), "tool", `{}`))
		check(t, path+": status", r.Status, 404)
		check(t, path+": code", r.Err().Code, wire.CodeMethodNotFound)
	}
}

func TestForeignHost(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.Guard.Hosts = []string{"mcp.acme.example"} })
	head := func(host string) string { return "GET /mcp HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
	for host, want := range map[string]int{
		"localhost:8080": 405, "127.0.0.1": 405, "[::1]:80": 405, "LOCALHOST": 405, "mcp.acme.example": 405, "MCP.acme.example:443": 405,
		"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "0.0.0.0": 403,
	} {
		resp, _ := g.raw(head(host), strings.NewReader(""))
		check(t, host, resp.StatusCode, want)
	}
}

// tooLong is a body of one byte too many.
func tooLong() io.Reader {
	start := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool","arguments":{"x":"`
	return io.MultiReader(strings.NewReader(start), io.LimitReader(letters{}, 10<<20-int64(len(start))-4), strings.NewReader(`"}}}`+" "))
}

type letters struct{}

func (letters) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("a"), len(p))), nil }

func TestTooLargeBody(t *testing.T) {
	g := newGateway(t)
	head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, send := range map[string]func() (*http.Response, []byte){
		"announced": func() (*http.Response, []byte) {
			return g.raw(head+"Content-Length: 10485761\r\n\r\n", strings.NewReader("{"))
		},
		"in chunks": func() (*http.Response, []byte) {
			return g.raw(head+"Transfer-Encoding: chunked\r\n\r\n", chunked(tooLong()))
		},
	} {
		resp, body := send()
		check(t, name+": status", resp.StatusCode, 413)
		check(t, name+": body", string(body),
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Request too large: the limit is 10485760 bytes","data":{"limit":10485760,"reason":"too_large"}}}`)
	}
	check(t, "calls at the upstream", len(g.up.got()), 0)
}

func chunked(r io.Reader) io.Reader {
	pr, pw := io.Pipe()
	go func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			if _, werr := io.WriteString(pw, hex(n)+"\r\n"+string(buf[:n])+"\r\n"); err != nil || werr != nil {
				pw.Close()
				return
			}
		}
	}()
	return pr
}

func hex(n int) string {
	const digits = "0123456789abcdef"
	s := ""
	for ; n > 0; n /= 16 {
		s = string(digits[n%16]) + s
	}
	return s
}

func TestBodyAtTheLimit(t *testing.T) {
	g := newGateway(t)
	start := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool",` + goodMeta + `,"arguments":{"x":"`
	whole := start + strings.Repeat("a", 10<<20-len(start)-4) + `"}}}`
	r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`, mcptest.WithBody([]byte(whole))))
	check(t, "status", r.Status, 200)
	check(t, "bytes at the upstream", len(g.up.got()[0].Params.Bytes()) > 10<<20-200, true)
}

func TestShapeOfTheBody(t *testing.T) {
	g := newGateway(t)
	call := func(arguments string) mcptest.Reply {
		return g.ok(g.client("ann").CallTool(t.Context(), "tool", arguments, mcptest.WithID(wire.Raw("7"))))
	}
	nested := func(n int) string { return `{"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d:":":"`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	check(t, "as deep as may be", call(nested(97)).Status, http.StatusOK)
	check(t, "as many members as may be", call(members(900)).Status, http.StatusOK)
	for name, c := range map[string]struct{ arguments, id, data string }{
		"too deep":         {nested(98), "7", `{"limit":100,"reason":"too_deep"}`},
		"too many members": {members(1000), "null", `{"limit":1000,"reason":"too_many_members"}`},
	} {
		before := len(g.up.got())
		r := call(c.arguments)
		check(t, name+": status", r.Status, http.StatusBadRequest)
		check(t, name+": id", cmp.Or(string(r.Message.ID), "null"), c.id)
		check(t, name+": data", string(r.Err().Data), c.data)
		check(t, name+": calls at the upstream", len(g.up.got())-before, 0)
	}
	for name, body := range map[string]string{"200 000 deep": strings.Repeat(`{"a":[`, 100_000), "400 000 members": members(400_000)} {
		r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`, mcptest.WithBody([]byte(body))))
		check(t, name+": status", r.Status, http.StatusBadRequest)
	}
}

func TestShortOrSlowBody(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.BodyTimeout = 50 * time.Millisecond })
	head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
	resp, body := g.raw(head, strings.NewReader(`{"jsonrpc":`)) // and nothing more
	check(t, "status", resp.StatusCode, 400)
	check(t, "body", string(body), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: the body broke off or was too slow"}}`)
}

// Whoever is refused before its body is read need not send it.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	g := newGateway(t, func(s *setup) { s.MaxBody = 50 })
	resp, _ := g.raw("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n", strings.NewReader("{"))
	check(t, "too large: status", resp.StatusCode, 413)
	resp, _ = g.raw("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n", strings.NewReader("{"))
	check(t, "wrong type: status", resp.StatusCode, 415)
}

func TestNotificationsAreAccepted(t *testing.T) {
	g := newGateway(t)
	r := g.ok(g.client("ann").Call(t.Context(), "notifications/cancelled", wire.Raw(`{}`), mcptest.WithID(nil)))
	check(t, "status", r.Status, 202)
	check(t, "body", string(r.Body), "")
	check(t, "calls at the upstream", len(g.up.got()), 0)
}

func TestRemovedMethods(t *testing.T) {
	g := newGateway(t)
	for _, method := range []string{
		"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
		"tasks/result", "tasks/list", "tasks/whatever",
	} {
		r := g.ok(g.client("ann").Call(t.Context(), method, wire.Raw(`{}`)))
		check(t, method+": status", r.Status, 404)
		check(t, method+": code", r.Err().Code, wire.CodeMethodNotFound)
	}
	check(t, "calls at the upstream", len(g.up.got()), 0)
}
