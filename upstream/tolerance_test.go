package upstream

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// raw answers with exactly these bytes; "ID" in them stands for the request's id.
func raw(contentType, body string) func(http.ResponseWriter, received) {
	return func(w http.ResponseWriter, r received) {
		w.Header()["Content-Type"] = []string{contentType}
		if contentType == "" {
			w.Header()["Content-Type"] = nil // net/http would guess one
		}
		io.WriteString(w, strings.ReplaceAll(body, "ID", string(r.ID)))
	}
}

func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, s)
	z.Close()
	return b.String()
}

// Each is something that a real server was seen to send, or may send.
func TestToleratedAnswers(t *testing.T) {
	const sse, json = "text/event-stream", "application/json"
	const ok = `{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}`
	const other = `{"jsonrpc":"2.0","id":77,"result":{"ok":2}}`
	const note = `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`
	tests := map[string]struct{ contentType, body string }{
		"plain JSON":                      {json, ok},
		"JSON with charset and space":     {"Application/JSON; charset=utf-8", "\r\n " + ok + "\n"},
		"JSON with a byte order mark":     {json, "\ufeff" + ok},
		"JSON without a content type":     {"", " \n" + ok},
		"JSON called text":                {"text/plain; charset=utf-8", ok},
		"JSON with a broken content type": {";;;", ok},
		"batch in JSON":                   {json, " [" + note + "," + ok + "]"},
		"plain SSE":                       {sse, "event: message\ndata: " + ok + "\n\n"},
		"SSE without a content type":      {"", "\nid: 1\ndata: " + ok + "\n\n"},
		"SSE called text":                 {"text/plain", ": hi\n\ndata: " + ok + "\n\n"},
		"CRLF":                            {sse, "id: 1\r\nevent: message\r\ndata: " + ok + "\r\n\r\n"},
		"CR":                              {sse, "data: " + ok + "\r\r"},
		"byte order mark":                 {sse, "\ufeffdata: " + ok + "\n\n"},
		"no space after the colon":        {sse, "data:" + ok + "\n\n"},
		"comments":                        {sse, ": ok\n\n:\r\n:keepalive\n\ndata: " + ok + "\n: x\n\n"},
		"priming event":                   {sse, "id: e-1\ndata: \n\ndata: " + ok + "\n\n"},
		"empty data":                      {sse, "data\n\ndata:\n\ndata: " + ok + "\n\n"},
		"unknown event names":             {sse, "event: close\nretry: 10\ndata: bye\n\nevent: ping\ndata: {}\n\ndata: " + ok + "\n\n"},
		"unknown fields":                  {sse, "foo: bar\nretry: soon\ndata: " + ok + "\n\n"},
		"several data lines":              {sse, "data: {\"jsonrpc\":\"2.0\",\ndata:  \"id\":ID,\ndata: \"result\":{\"ok\":1}}\n\n"},
		"no last blank line":              {sse, "data: " + ok + "\n"},
		"no last line end":                {sse, "data: " + ok},
		"answers to others":               {sse, "data: " + other + "\n\ndata: " + ok + "\n\n"},
		"the id as a string is another":   {sse, "data: " + strings.Replace(other, "77", `"ID"`, 1) + "\n\ndata: " + ok + "\n\n"},
		"no JSON":                         {sse, "data: hello\n\ndata: " + ok + "\n\n"},
		"a message that is none":          {sse, "data: {\"jsonrpc\":\"2.0\"}\n\ndata: " + ok + "\n\n"},
		"batch in SSE":                    {sse, "data: [" + note + "," + ok + "]\n\n"},
		"more after the response":         {sse, "data: " + ok + "\n\ndata: " + note + "\n\n: bye\n\n"},
		"undeclared gzip":                 {json, "gzip"},
		"undeclared gzip of SSE":          {sse, "gzip"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			answer := raw(tt.contentType, tt.body)
			if tt.body == "gzip" {
				answer = func(w http.ResponseWriter, r received) {
					body := strings.ReplaceAll(ok, "ID", string(r.ID))
					if tt.contentType == sse {
						body = "data: " + body + "\n\n"
					}
					w.Header().Set("Content-Type", tt.contentType)
					io.WriteString(w, zipped(body))
				}
			}
			for _, era := range []Era{Legacy, Modern} {
				s := serve(t, answering(answer))
				h := connect(t, Options{URL: s.URL, Era: era})
				reply, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
				if err != nil {
					t.Fatalf("%s: %v", era, err)
				}
				check(t, string(era)+" result", string(reply.Result), `{"ok":1}`)
				check(t, string(era)+" streamed", reply.Streamed, strings.Contains(tt.body, "data:") || tt.body == "gzip" && tt.contentType == sse)
			}
		})
	}
}

func TestStreamThatStaysOpenAfterTheResponse(t *testing.T) {
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		stream(w, event(`{'jsonrpc':'2.0','id':%s,'result':{}}`, r.ID))
		waitForCancel(r) // comes when the connector has drained for long enough
	}))
	h := connectLegacy(t, s, Options{})
	if _, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{}); err != nil {
		t.Fatal(err)
	}
	check(t, "cancelled", len(s.all(method("notifications/cancelled"))), 0)
}

func TestConnectionIsUsedAgainAfterAStream(t *testing.T) {
	connections := map[string]bool{}
	over := make(chan struct{})
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		stream(w, event(`{'jsonrpc':'2.0','id':%s,'result':{}}`, r.ID))
		<-over // the end of the stream comes after the response is read
	}))
	s.Config.Handler = remember(connections, s)
	h := connectModern(t, s)
	for id := range uint64(5) {
		if _, err := h.Call(t.Context(), toolCall(id+1, "x", `{}`), &recorder{}); err != nil {
			t.Fatal(err)
		}
		over <- struct{}{}
		h.running.Wait() // the stream is drained
	}
	check(t, "connections", len(connections), 1)
}

// remember notes the client's address of each request; they come one by one.
func remember(seen map[string]bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen[r.RemoteAddr] = true
		next.ServeHTTP(w, r)
	})
}

func TestLargeAnswersWithinTheLimit(t *testing.T) {
	big := strings.Repeat("x", 8<<20)
	s := serve(t, answering(func(w http.ResponseWriter, r received) {
		w.Header().Set("Content-Type", "text/event-stream")
		body := fmt.Sprintf(`data: {"jsonrpc":"2.0","id":%s,"result":{"x":"%s"}}`+"\n\n", r.ID, big)
		for len(body) > 0 { // in small pieces, as networks do
			n := min(len(body), 4096)
			io.WriteString(w, body[:n])
			w.(http.Flusher).Flush()
			body = body[n:]
		}
	}))
	h := connectModern(t, s)
	reply, err := h.Call(t.Context(), toolCall(5, "x", `{}`), &recorder{})
	if err != nil {
		t.Fatal(err)
	}
	check(t, "size", len(reply.Result), len(big)+len(`{"x":""}`))
}
