package upstream

import (
	"net/http"
	"testing"

	"taskgate/wire"
)

func TestLegacyParams(t *testing.T) {
	tests := []struct{ name, method, params, want string }{
		{"none", "tools/list", ``, `{"_meta":{"progressToken":7}}`},
		{"no _meta", "tools/call", `{"name":"x","arguments":{"n":9007199254740993,"f":1.50}}`,
			`{"name":"x","arguments":{"n":9007199254740993,"f":1.50},"_meta":{"progressToken":7}}`},
		{"reserved keys go, others stay where they are", "tools/call",
			`{"_meta":{"a/b":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"z":[ 1 ]},"name":"x"}`,
			`{"_meta":{"a/b":1,"z":[ 1 ],"progressToken":7},"name":"x"}`},
		{"the client's token becomes ours", "tools/call", `{"_meta":{"progressToken":"theirs","a":1}}`, `{"_meta":{"progressToken":7,"a":1}}`},
		{"task, inputResponses and requestState go", "tools/call",
			`{"name":"x","task":{"ttl":1},"inputResponses":{},"requestState":"s","arguments":{"task":1}}`,
			`{"name":"x","arguments":{"task":1},"_meta":{"progressToken":7}}`},
		{"but not those of other methods", "acme/run", `{"task":1}`, `{"task":1,"_meta":{"progressToken":7}}`},
		{"names keep their spelling", "tools/call", `{"\u006eame":"x"}`, `{"\u006eame":"x","_meta":{"progressToken":7}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Request{ID: 7, Method: tt.method}
			if tt.params != "" {
				r.Params = object(t, tt.params)
			}
			got, err := legacyParams(r)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "params", string(got.Bytes()), tt.want)
		})
	}
}

func TestModernParams(t *testing.T) {
	r := toolCall(7, "x", `{}`)
	r.Params = object(t, `{"name":"x","_meta":{"a/b":1,"progressToken":"theirs","io.modelcontextprotocol/logLevel":"debug"},"requestState":"s"}`)
	got, err := modernParams(&r, false)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"x","_meta":{"a/b":1,"progressToken":7,` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"sampling":{},"roots":{}},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"client","version":"1"}},"requestState":"s"}`
	check(t, "params", string(got.Bytes()), want)

	r.LogLevel = "warning"
	got, _ = modernParams(&r, false)
	meta, _ := wire.ParseObject(got.Get("_meta"))
	check(t, "log level", string(meta.Get(wire.MetaLogLevel)), `"warning"`)
}

func TestMetaThatIsNoObject(t *testing.T) {
	for _, raw := range []string{`{"_meta":1}`, `{"_meta":[]}`, `{"_meta":null}`} {
		r := Request{ID: 1, Method: "tools/call", Params: object(t, raw)}
		if _, err := legacyParams(r); !isKind(err, Refused) {
			t.Errorf("legacy %s: %v", raw, err)
		}
		if _, err := modernParams(&r, false); !isKind(err, Refused) {
			t.Errorf("modern %s: %v", raw, err)
		}
	}
}

func TestCallHeader(t *testing.T) {
	r := Request{Header: http.Header{
		"Authorization": {"Bearer x"}, "Mcp-Param-Region": {"eu"}, "Mcp-Session-Id": {"theirs"}, "Last-Event-Id": {"9"},
		"Mcp-Name": {"theirs"}, "Mcp-Method": {"theirs"}, "Mcp-Protocol-Version": {"theirs"},
		"Connection": {"close"}, "Transfer-Encoding": {"chunked"}, "Content-Length": {"3"}, "te": {"trailers"},
	}}
	modern := callHeader(r.Header, Modern)
	check(t, "modern headers", len(modern), 2)
	check(t, "region", modern.Get("Mcp-Param-Region"), "eu")
	legacy := callHeader(r.Header, Legacy)
	check(t, "legacy headers", len(legacy), 1)
	check(t, "authorization", legacy.Get("Authorization"), "Bearer x")
}
