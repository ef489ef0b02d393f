package upstream

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"taskgate/wire"
)

func connectModern(t *testing.T, s *scripted) *Connector {
	t.Helper()
	return connect(t, Options{URL: s.URL, Era: Modern})
}

func TestModernRequest(t *testing.T) {
	s := serve(t, answering(fast))
	h := connectModern(t, s)
	r := toolCall(5, "größe", `{"region":"eu","big":9007199254740993}`)
	r.Params = object(t, `{"name":"größe","arguments":{"region":"eu","big":9007199254740993},"_meta":{"a/b":1}}`)
	r.Header = http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Method": {"forged"}, "Mcp-Session-Id": {"theirs"}}
	if _, err := h.Call(t.Context(), r, &recorder{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "messages", s.methods(), "tools/call")
	got := s.got[0]
	for name, want := range map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?Z3LDtsOfZQ==?=",
		"Mcp-Param-Region": "eu", "Mcp-Session-Id": "", "Accept-Encoding": "identity",
	} {
		check(t, name, got.header.Get(name), want)
	}
	if !strings.HasPrefix(string(got.Params), `{"name":"größe","arguments":{"region":"eu","big":9007199254740993},"_meta":{"a/b":1,`) {
		t.Errorf("params: %s", got.Params)
	}
	params, _ := wire.ParseObject(got.Params)
	meta, _ := wire.ParseMeta(params)
	check(t, "tasks declared", meta.Capabilities.DeclaresTasks(), false)
	check(t, "progress token", string(meta.ProgressToken), "5")
}

func TestModernAnswersArriveAsTheyAre(t *testing.T) {
	const result = `{"content":null,"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}},"n":9007199254740993,"z":1.0}`
	for name, answer := range map[string]func(w http.ResponseWriter, r received){
		"JSON": func(w http.ResponseWriter, r received) { replyJSON(w, 200, r.ID, `"result":`+result) },
		"SSE": func(w http.ResponseWriter, r received) {
			stream(w, event(`{'jsonrpc':'2.0','method':'notifications/progress','params':{'progressToken':%s,'progress':1}}`, r.ID),
				event(`{'jsonrpc':'2.0','id':1,'method':'ping'}`), // not allowed here: nobody answers
				event("%s", `{"jsonrpc":"2.0","id":`+string(r.ID)+`,"result":`+result+`}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, answering(answer))
			h := connectModern(t, s)
			reply, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
			if err != nil {
				t.Fatal(err)
			}
			check(t, "result", string(reply.Result), result)
			equal(t, "messages", s.methods(), "tools/call")
		})
	}
}

func TestModernErrorsAreReplies(t *testing.T) {
	for name, id := range map[string]bool{"for our id": true, "for a null id": false} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, answering(func(w http.ResponseWriter, r received) {
				if !id {
					r.ID = nil
				}
				replyJSON(w, 400, r.ID, `"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{"roots":{}}}}`)
			}))
			h := connectModern(t, s)
			reply, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
			if err != nil {
				t.Fatal(err)
			}
			check(t, "error", string(reply.Error), `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"roots":{}}}}`)
		})
	}
}

func TestModernCancelClosesTheStreamAndSaysNoMore(t *testing.T) {
	started, closed := make(chan struct{}), make(chan struct{})
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		stream(w, ": hello\n\n")
		close(started)
		waitForCancel(r)
		close(closed)
	}))
	h := connectModern(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	if _, err := h.Call(ctx, toolCall(5, "x", `{}`), &recorder{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	<-closed
	equal(t, "messages", s.methods(), "tools/call")
}

func TestModernInfo(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		replyJSON(w, 200, r.ID, `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"x":1.0}},`+
			`"instructions":"do","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}`)
		return true
	})
	h := connectModern(t, s)
	info, err := h.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check(t, "modern", info.Modern, true)
	check(t, "capabilities", string(info.Capabilities), `{"tools":{"x":1.0}}`)
	check(t, "server info", string(info.ServerInfo), `{"name":"s"}`)
	check(t, "instructions", string(info.Instructions), `"do"`)
	check(t, "method header", s.got[0].header.Get("Mcp-Method"), "server/discover")
	if !wire.IsModern(s.got[0].Params) {
		t.Errorf("params: %s", s.got[0].Params)
	}
}

func TestLegacyInfo(t *testing.T) {
	s := serve(t, answering(fast))
	h := connectLegacy(t, s, Options{})
	for range 2 { // each asks the server anew
		info, err := h.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check(t, "modern", info.Modern, false)
		check(t, "capabilities", string(info.Capabilities), `{"tools":{}}`)
		check(t, "server info", string(info.ServerInfo), `{"name":"scripted"}`)
		check(t, "instructions", string(info.Instructions), "")
	}
	equal(t, "messages", s.methods(), "initialize", "notifications/initialized", "DELETE",
		"initialize", "notifications/initialized", "DELETE")
}
