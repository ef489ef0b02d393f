package wire

import (
	"net/http"
	"strings"
	"testing"
)

func TestHeaderEncoding(t *testing.T) {
	for value, want := range map[string]string{ // the table of Value Encoding, and its edges
		"us-west1":              "us-west1",
		"Hello, 世界":             "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":              "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":          "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=":    "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"":                      "",
		"a b\tc":                "a b\tc",
		"\ttab":                 "=?base64?CXRhYg==?=",
		"del\x7f":               "=?base64?ZGVsfw==?=",
		"=?BASE64?literal?=":    "=?BASE64?literal?=",
		"=?base64?no end":       "=?base64?no end",
		"=?base64?=":            "=?base64?PT9iYXNlNjQ/PQ==?=",
		"file:///a?b=c#=?base6": "file:///a?b=c#=?base6",
	} {
		if got := EncodeHeader(value); got != want {
			t.Errorf("%q: encoded %q", value, got)
		}
		if got, err := DecodeHeader(want); err != nil || got != value {
			t.Errorf("%q: decoded %q, %v", want, got, err)
		}
	}
}

func TestDecodeHeader(t *testing.T) {
	for in, want := range map[string]string{
		" \t a b \t":           "a b",
		" =?base64?YQ==?= ":    "a",
		"=?base64??=":          "",
		"=?base64?=":           "=?base64?=",
		"=?Base64?YQ==?=":      "=?Base64?YQ==?=",
		"x=?base64?YQ==?=":     "x=?base64?YQ==?=",
		"=?base64?YQ==?= tail": "=?base64?YQ==?= tail",
	} {
		if got, err := DecodeHeader(in); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"=?base64?YQ?=":     "bad Base64", // padding missing
		"=?base64?YR==?=":   "bad Base64", // bits after the end
		"=?base64?YQ= =?=":  "bad Base64",
		"=?base64?Y_-=?=":   "bad Base64", // the URL alphabet
		"=?base64?YQ==YQ?=": "bad Base64",
		"caf\xe9":           "byte 0xe9 at 3 is not allowed",
		"世界":                "byte 0xe4 at 0 is not allowed",
		"a\x00":             "byte 0x00 at 1 is not allowed",
		"a\r\nb":            "byte 0x0d at 1 is not allowed",
		"del\x7f":           "byte 0x7f at 3 is not allowed",
	} {
		if got, err := DecodeHeader(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// headers makes a header from "Name: value" lines parted by "|".
func headers(lines string) http.Header {
	h := http.Header{}
	for line := range strings.SplitSeq(lines, "|") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			h.Add(name, value)
		}
	}
	return h
}

func TestCheckHeaders(t *testing.T) {
	const version = "MCP-Protocol-Version: 2026-07-28|"
	for _, c := range []struct{ name, method, params, headers, want string }{
		{"tools/call", "tools/call", `{"name":"a"}`, version + "Mcp-Method: tools/call|Mcp-Name: a", ""},
		{"names of headers in any case", "tools/call", `{"name":"a"}`, "mcp-protocol-VERSION: 2026-07-28|MCP-METHOD: tools/call|mcp-NAME: a", ""},
		{"white space around", "tools/call", `{"name":"a"}`, "Mcp-Protocol-Version:  2026-07-28\t|Mcp-Method:  tools/call |Mcp-Name: \t a ", ""},
		{"Base64 name", "tools/call", `{"name":"世界"}`, version + "Mcp-Method: tools/call|Mcp-Name: =?base64?5LiW55WM?=", ""},
		{"Base64 of a plain name", "tools/call", `{"name":"a"}`, version + "Mcp-Method: tools/call|Mcp-Name: =?base64?YQ==?=", ""},
		{"prompts/get", "prompts/get", `{"name":"a"}`, version + "Mcp-Method: prompts/get|Mcp-Name: a", ""},
		{"resources/read", "resources/read", `{"uri":"file:///a"}`, version + "Mcp-Method: resources/read|Mcp-Name: file:///a", ""},
		{"tasks/get", "tasks/get", `{"taskId":"t"}`, version + "Mcp-Method: tasks/get|Mcp-Name: t", ""},
		{"tasks/get without name", "tasks/get", `{"taskId":"t"}`, version + "Mcp-Method: tasks/get", ""},
		{"tasks/update without name", "tasks/update", `{"taskId":"t"}`, version + "Mcp-Method: tasks/update", ""},
		{"tasks/cancel without name", "tasks/cancel", `{"taskId":"t"}`, version + "Mcp-Method: tasks/cancel", ""},
		{"tools/list", "tools/list", `{}`, version + "Mcp-Method: tools/list", ""},
		{"a name nobody asked for", "tools/list", `{"name":"b"}`, version + "Mcp-Method: tools/list|Mcp-Name: a", ""},
		{"name to repeat is missing", "tools/call", `{}`, version + "Mcp-Method: tools/call", ""},
		{"name is no string", "tools/call", `{"name":1}`, version + "Mcp-Method: tools/call", ""},

		{"no version", "tools/list", `{}`, "Mcp-Method: tools/list", "Mcp-Protocol-Version is missing"},
		{"other version", "tools/list", `{}`, "MCP-Protocol-Version: 2025-11-25|Mcp-Method: tools/list", "Mcp-Protocol-Version does not match"},
		{"two versions", "tools/list", `{}`, version + version + "Mcp-Method: tools/list", "is there 2 times"},
		{"Base64 version", "tools/list", `{}`, "MCP-Protocol-Version: =?base64?MjAyNi0wNy0yOA==?=|Mcp-Method: tools/list", "does not match"},
		{"no method", "tools/list", `{}`, version, "Mcp-Method is missing"},
		{"empty method", "tools/list", `{}`, version + "Mcp-Method: ", "does not match"},
		{"other method", "tools/call", `{"name":"a"}`, version + "Mcp-Method: tasks/get|Mcp-Name: a", "Mcp-Method does not match"},
		{"method in capitals", "tools/list", `{}`, version + "Mcp-Method: TOOLS/LIST", "Mcp-Method does not match"},
		{"Base64 method", "tools/list", `{}`, version + "Mcp-Method: =?base64?dG9vbHMvbGlzdA==?=", "Mcp-Method does not match"},
		{"two methods", "tools/list", `{}`, version + "Mcp-Method: tools/list|Mcp-Method: tools/list", "is there 2 times"},
		{"list of methods", "tools/list", `{}`, version + "Mcp-Method: tools/list, tools/call", "does not match"},
		{"no tool name", "tools/call", `{"name":"a"}`, version + "Mcp-Method: tools/call", "Mcp-Name is missing"},
		{"no prompt name", "prompts/get", `{"name":"a"}`, version + "Mcp-Method: prompts/get", "Mcp-Name is missing"},
		{"no uri", "resources/read", `{"uri":"a"}`, version + "Mcp-Method: resources/read", "Mcp-Name is missing"},
		{"other tool", "tools/call", `{"name":"a"}`, version + "Mcp-Method: tools/call|Mcp-Name: b", "Mcp-Name does not match params.name"},
		{"tool in capitals", "tools/call", `{"name":"a"}`, version + "Mcp-Method: tools/call|Mcp-Name: A", "does not match"},
		{"other uri", "resources/read", `{"uri":"a"}`, version + "Mcp-Method: resources/read|Mcp-Name: b", "does not match params.uri"},
		{"two names", "tools/call", `{"name":"a"}`, version + "Mcp-Method: tools/call|Mcp-Name: a|Mcp-Name: b", "is there 2 times"},
		{"two names alike", "tools/call", `{"name":"a"}`, version + "Mcp-Method: tools/call|Mcp-Name: a|Mcp-Name: a", "is there 2 times"},
		{"raw UTF-8", "tools/call", `{"name":"世界"}`, version + "Mcp-Method: tools/call|Mcp-Name: 世界", "is not allowed"},
		{"bad Base64", "tools/call", `{"name":"a"}`, version + "Mcp-Method: tools/call|Mcp-Name: =?base64?YQ?=", "bad Base64"},
		{"other task on get", "tasks/get", `{"taskId":"t"}`, version + "Mcp-Method: tasks/get|Mcp-Name: u", "does not match params.taskId"},
		{"other task on update", "tasks/update", `{"taskId":"t"}`, version + "Mcp-Method: tasks/update|Mcp-Name: u", "does not match params.taskId"},
		{"other task on cancel", "tasks/cancel", `{"taskId":"t"}`, version + "Mcp-Method: tasks/cancel|Mcp-Name: u", "does not match params.taskId"},
		{"empty name on get", "tasks/get", `{"taskId":"t"}`, version + "Mcp-Method: tasks/get|Mcp-Name: ", "does not match"},
	} {
		m := Message{ID: Raw("1"), Method: c.method, Params: Raw(c.params)}
		checkMismatch(t, c.name, CheckHeaders(headers(c.headers), m, parse(t, c.params), Version), c.want)
	}
}
