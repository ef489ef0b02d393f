package wire

import (
	"strings"
	"testing"
)

const (
	keyVersion = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	keyCaps    = `"io.modelcontextprotocol/clientCapabilities":`
)

func TestParseMeta(t *testing.T) {
	m, err := ParseMeta(parse(t, `{"_meta":{`+keyVersion+`,`+keyCaps+`{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"c"},
		"io.modelcontextprotocol/logLevel":"debug","progressToken":1.50,"other":1}}`))
	if err != nil || m.Version != Version || string(m.Capabilities.Raw()) != `{"elicitation":{}}` ||
		string(m.ClientInfo) != `{"name":"c"}` || m.LogLevel != "debug" || string(m.ProgressToken) != "1.50" {
		t.Errorf("got %+v, %v", m, err)
	}
	m, err = ParseMeta(parse(t, `{"_meta":{`+keyVersion+`,`+keyCaps+`{}}}`))
	if err != nil || m.ClientInfo != nil || m.LogLevel != "" || m.ProgressToken != nil {
		t.Errorf("the least: got %+v, %v", m, err)
	}
}

func TestNoProgressToken(t *testing.T) {
	for token, want := range map[string]string{`null`: "", `""`: `""`, `0`: "0", `1.50`: "1.50"} {
		params := parse(t, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":`+token+`}}`)
		m, err := ParseMeta(params)
		if err != nil || string(m.ProgressToken) != want {
			t.Errorf("%s: got %q, %v", token, m.ProgressToken, err)
		}
	}
}

func TestParseMetaRefuses(t *testing.T) {
	for _, c := range []struct {
		in   string
		code int
		says string
	}{
		{`{}`, CodeInvalidParams, "params._meta is missing"},
		{`{"_meta":[]}`, CodeInvalidParams, "params._meta is missing or no object"},
		{`{"_meta":{` + keyCaps + `{}}}`, CodeInvalidParams, `params._meta["io.modelcontextprotocol/protocolVersion"] is missing`},
		{`{"_meta":{"io.modelcontextprotocol/protocolVersion":1,` + keyCaps + `{}}}`, CodeInvalidParams, "no string"},
		{`{"_meta":{` + keyVersion + `}}`, CodeInvalidParams, `params._meta["io.modelcontextprotocol/clientCapabilities"] is missing`},
		{`{"_meta":{` + keyVersion + `,` + keyCaps + `true}}`, CodeInvalidParams, "no object"},
		{`{"_meta":{` + keyVersion + `,` + keyCaps + `{},"IO.modelcontextprotocol/clientCapabilities":{}}}`, CodeInvalidRequest, "could be taken for"},
		{`{"_meta":{` + keyVersion + `,` + keyCaps + `{"Extensions":{}}}}`, CodeInvalidRequest, `capability "Extensions" could be taken for "extensions"`},
	} {
		if m, err := ParseMeta(parse(t, c.in)); err == nil || err.Code != c.code || !strings.Contains(err.Message, c.says) {
			t.Errorf("%s: got %+v, %v", c.in, m, err)
		}
	}
}

func TestIsModern(t *testing.T) {
	for in, want := range map[string]bool{
		`{"_meta":{` + keyVersion + `}}`:                          true,
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}`: true, // and then refused as such
		`{"_meta":{"progressToken":1}}`:                           false,
		`{"protocolVersion":"2025-11-25"}`:                        false,
		`{"_meta":1}`:                                             false,
		`{}`:                                                      false,
		``:                                                        false,
	} {
		if got := IsModern(Raw(in)); got != want {
			t.Errorf("%s: %v", in, got)
		}
	}
}

func TestDeclaresTasks(t *testing.T) {
	for in, want := range map[string]bool{
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`:      true,
		`{"extensions":{"io.modelcontextprotocol/tasks":{"x":1}}}`: true,
		`{"extensions":{"io.modelcontextprotocol/tasks":true}}`:    false,
		`{"extensions":{"io.modelcontextprotocol/tasks":null}}`:    false,
		`{"extensions":{"IO.modelcontextprotocol/tasks":{}}}`:      false,
		`{"extensions":[]}`:                            false,
		`{"tasks":{"requests":{"tools":{"call":{}}}}}`: false,
		`{}`: false, ``: false, `7`: false,
	} {
		if got := ParseCapabilities(Raw(in)).DeclaresTasks(); got != want {
			t.Errorf("%s: %v", in, got)
		}
	}
}

// Tasks of 2025-11-25 are something else, and stay when the extension goes.
func TestDeclaresTasks2025(t *testing.T) {
	for in, want := range map[string]bool{
		`{"tasks":{"list":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`: true,
		`{"tasks":{}}`: true,
		`{"tasks":true,"extensions":{"io.modelcontextprotocol/tasks":{}}}`: false,
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`:              false,
		`{}`: false,
	} {
		c := ParseCapabilities(Raw(in))
		rest := ParseCapabilities(c.WithoutExtension())
		if c.DeclaresTasks2025() != want || rest.DeclaresTasks2025() != want || rest.DeclaresTasks() {
			t.Errorf("%s: %v; without the extension %s", in, c.DeclaresTasks2025(), rest.Raw())
		}
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct{ caps, method, params, missing string }{
		{`{"elicitation":{}}`, MethodElicit, `{"message":"m"}`, ``},
		{`{"elicitation":{}}`, MethodElicit, `{"mode":"form"}`, ``},
		{`{"elicitation":{}}`, MethodElicit, `{"mode":"url"}`, `{"elicitation":{"url":{}}}`},
		{`{"elicitation":{"url":{}}}`, MethodElicit, `{"mode":"url"}`, ``},
		{`{"elicitation":{"url":{}}}`, MethodElicit, `{}`, `{"elicitation":{"form":{}}}`},
		{`{"elicitation":{"form":{},"url":{}}}`, MethodElicit, ``, ``},
		{`{"elicitation":true}`, MethodElicit, `{}`, `{"elicitation":{"form":{}}}`},
		{`{}`, MethodElicit, `{}`, `{"elicitation":{"form":{}}}`},
		{`{"sampling":{}}`, MethodSampling, `{"messages":[]}`, ``},
		{`{"sampling":{}}`, MethodSampling, `{"tools":[]}`, `{"sampling":{"tools":{}}}`},
		{`{"sampling":{}}`, MethodSampling, `{"toolChoice":{}}`, `{"sampling":{"tools":{}}}`},
		{`{"sampling":{"tools":{}}}`, MethodSampling, `{"tools":[]}`, ``},
		{`{"elicitation":{}}`, MethodSampling, `{}`, `{"sampling":{}}`},
		{`{"roots":{"listChanged":true}}`, MethodRoots, ``, ``},
		{`{}`, MethodRoots, ``, `{"roots":{}}`},
		{`{"roots":{}}`, "ping", ``, `{}`},
	} {
		if got := ParseCapabilities(Raw(c.caps)).Answers(c.method, Raw(c.params)); string(got) != c.missing {
			t.Errorf("%s, %s %s: missing %s", c.caps, c.method, c.params, got)
		}
	}
}

func TestInteractive(t *testing.T) {
	for in, want := range map[string]string{
		`{"sampling":{ },"x":1,"roots":{"listChanged":true},"elicitation":{"url":{}},"extensions":{}}`: `{"elicitation":{"url":{}},"roots":{"listChanged":true},"sampling":{ }}`,
		`{"roots":true}`: `{}`,
		``:               `{}`,
	} {
		if got := ParseCapabilities(Raw(in)).Interactive(); string(got) != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func TestWithoutTasks(t *testing.T) {
	for in, want := range map[string]string{
		`{"extensions":{"io.modelcontextprotocol/tasks":{}},"sampling":{}}`:     `{"sampling":{}}`,
		`{"extensions":{"a/b":{ },"io.modelcontextprotocol/tasks":{}},"x":1.0}`: `{"extensions":{"a/b":{ }},"x":1.0}`,
		`{"tasks":{},"extensions":7}`:                                           `{"extensions":7}`,
		`{}`:                                                                    `{}`,
	} {
		if got := ParseCapabilities(Raw(in)).WithoutTasks(); string(got) != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
