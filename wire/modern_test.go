package wire

import "testing"

const serverInfo = `{"name":"old","version":"1"}`

func TestModernResult(t *testing.T) {
	const info = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"old","version":"1"}}`
	for _, c := range []struct{ name, method, in, want string }{
		{"a tool result keeps its bytes", "tools/call",
			`{"content":[{"type":"text","text":"a\u0062"}],"structuredContent":{"n":9007199254740993, "z":1,"a":2},"isError":false,"x":1.0}`,
			`{"content":[{"type":"text","text":"a\u0062"}],"structuredContent":{"n":9007199254740993, "z":1,"a":2},"isError":false,"x":1.0,"resultType":"complete",` + info + `}`},
		{"a tool result without content", "tools/call", `{"structuredContent":1}`,
			`{"structuredContent":1,"resultType":"complete","content":[],` + info + `}`},
		{"null is no value", "tools/call", `{"content":null,"_meta":null}`,
			`{"content":[],"resultType":"complete",` + info + `}`},
		{"related task dropped", "tools/call", `{"content":[],"_meta":{"a":1,"io.modelcontextprotocol/related-task":{"taskId":"7"}}}`,
			`{"content":[],"_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"old","version":"1"}},"resultType":"complete"}`},
		{"server info kept", "tools/call", `{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mine"}}}`,
			`{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mine"}},"resultType":"complete"}`},
		{"execution dropped", "tools/list", `{"tools":[{"name":"a","execution":{"taskSupport":"forbidden"},"inputSchema":{"execution":1}},{"name":"b", "x":1}],"nextCursor":"c"}`,
			`{"tools":[{"name":"a","inputSchema":{"execution":1}},{"name":"b", "x":1}],"nextCursor":"c","resultType":"complete","ttlMs":0,"cacheScope":"private",` + info + `}`},
		{"a list without its list", "tools/list", `{}`,
			`{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + info + `}`},
		{"hints kept", "resources/read", `{"contents":[],"ttlMs":5,"cacheScope":"public","resultType":"complete"}`,
			`{"contents":[],"ttlMs":5,"cacheScope":"public","resultType":"complete",` + info + `}`},
		{"no hints on a prompt", "prompts/get", `{"messages":[]}`,
			`{"messages":[],"resultType":"complete",` + info + `}`},
		{"a question is no tool result", "tools/call", `{"resultType":"input_required","inputRequests":{}}`,
			`{"resultType":"input_required","inputRequests":{},` + info + `}`},
		{"meta that is no object is left alone", "ping", `{"_meta":7}`, `{"_meta":7,"resultType":"complete"}`},
	} {
		got, err := ModernResult(c.method, Raw(c.in), Raw(serverInfo))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", c.name, err, got, c.want)
		}
	}
}

func TestModernResultCaching(t *testing.T) {
	for _, method := range []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"} {
		got, err := ModernResult(method, Raw(`{}`), nil)
		if want := `{"resultType":"complete","ttlMs":0,"cacheScope":"private"}`; err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", method, got, err)
		}
	}
}

func TestModernResultWithoutServerInfo(t *testing.T) {
	got, err := ModernResult("tools/call", Raw(`{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{}}}`), nil)
	if want := `{"content":[],"resultType":"complete"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestModernResultRefuses(t *testing.T) {
	for _, c := range []struct{ method, in, want string }{
		{"tools/call", `[]`, "result of tools/call: not a JSON object"},
		{"tools/list", `{"tools":{}}`, "result of tools/list: tools: not a JSON array"},
		{"tools/list", `{"tools":[{},3]}`, "result of tools/list: tools[1]: not a JSON object"},
	} {
		if _, err := ModernResult(c.method, Raw(c.in), nil); err == nil || err.Error() != c.want {
			t.Errorf("%s %s: %v", c.method, c.in, err)
		}
	}
}

func TestModernError(t *testing.T) {
	for in, want := range map[string]string{
		`{"code":-32002,"message":"Resource not found","data":{"uri":"file:///a", "n":1e2}}`: `{"code":-32602,"message":"Resource not found","data":{"uri":"file:///a", "n":1e2}}`,
		`{"message":"m","code": -32002}`:                           `{"message":"m","code":-32602}`,
		`{"code":-32001, "message":"m","x":[1 , 2]}`:               `{"code":-32001, "message":"m","x":[1 , 2]}`,
		`{"code":-32042,"message":"m","data":{"elicitations":[]}}`: `{"code":-32603,"message":"m","data":{"elicitations":[]}}`,
		`"no object"`: `"no object"`,
	} {
		if got := ModernError(Raw(in)); string(got) != want {
			t.Errorf("%s: got %s", in, got)
		}
	}
}

func TestURLElicitations(t *testing.T) {
	for in, want := range map[string]string{
		`{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":"a:b"},{"mode":"url", "n":1.0}]}}`: `{"url1":{"method":"elicitation/create","params":{"mode":"url","url":"a:b"}},` +
			`"url2":{"method":"elicitation/create","params":{"mode":"url", "n":1.0}}}`,
		`{"code":-32042,"message":"m","data":{"elicitations":7}}`:            `{}`,
		`{"code":-32042,"message":"m"}`:                                      `{}`,
		`{"code":-32603,"message":"m","data":{"elicitations":[{"mode":1}]}}`: `{}`,
		`"no object"`: `{}`,
	} {
		if got := URLElicitations(Raw(in)).Bytes(); string(got) != want {
			t.Errorf("%s: got %s", in, got)
		}
	}
}
