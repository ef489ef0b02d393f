package stdiofront

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"taskgate/wire"
)

// host is the other end of a Bridge to an endpoint that a test has written.
type host struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan string
	ended chan error
}

func start(t *testing.T, endpoint http.HandlerFunc) *host {
	t.Helper()
	server := httptest.NewServer(endpoint)
	t.Cleanup(server.Close)
	b := New(Options{Client: server.Client(), URL: server.URL, MaxMessage: 1 << 20, Finish: time.Minute, Again: time.Minute})
	stdin, in := io.Pipe()
	stdout, out := io.Pipe()
	h := &host{t: t, in: in, lines: make(chan string, 10), ended: make(chan error, 1)}
	go func() {
		h.ended <- b.Run(t.Context(), stdin, out)
		out.Close()
	}()
	go func() {
		defer close(h.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			h.lines <- s.Text()
		}
	}()
	return h
}

func (h *host) say(line string) {
	h.t.Helper()
	if _, err := io.WriteString(h.in, line+"\n"); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) want(line string) {
	h.t.Helper()
	select {
	case got := <-h.lines:
		if !strings.Contains(got, line) {
			h.t.Errorf("line %s, want %s", got, line)
		}
	case <-time.After(10 * time.Second):
		h.t.Fatalf("no line %s", line)
	}
}

const modernMeta = `{"_meta":{"` + wire.MetaVersion + `":"` + wire.Version + `"},"name":"é"}`

func TestHeadersAreThoseOfTheEra(t *testing.T) {
	h := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		msg, _ := wire.Decode(body)
		if msg.Method == "initialize" {
			w.Header().Set(wire.HeaderSession, "s1")
			_, _ = w.Write(wire.Result(msg.ID, wire.Raw(`{"protocolVersion":"2025-06-18"}`)).Bytes())
			return
		}
		seen := strings.Join([]string{r.Header.Get(wire.HeaderVersion), r.Header.Get(wire.HeaderSession), r.Header.Get(wire.HeaderMethod), r.Header.Get(wire.HeaderName)}, " ")
		_, _ = w.Write(wire.Result(msg.ID, wire.Object{}.With("seen", wire.Quote(seen)).Bytes()).Bytes())
	})
	h.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + modernMeta + `}`)
	h.want(`"2026-07-28  tools/call ` + wire.EncodeHeader("é") + `"`)
	h.say(`{"jsonrpc":"2.0","id":2,"method":"initialize"}`)
	h.want(`"id":2,"result"`)
	h.say(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	h.want(`"2025-06-18 s1  "`)
}

func TestEveryRequestIsAnswered(t *testing.T) {
	h := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		msg, _ := wire.Decode(body)
		switch msg.Method {
		case "closes":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(wire.AppendEvent(nil, []byte("{\"jsonrpc\":\"2.0\",\n\"method\":\"notifications/x\"}")))
		case "fails":
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	h.say(`{"jsonrpc":"2.0","id":1,`)
	h.want(`"code":-32700`)
	h.say(`{"jsonrpc":"2.0","id":2,"method":"closes"}`)
	h.want(`"method":"notifications/x"`)
	h.want(`it closed the stream`)
	h.say(`{"jsonrpc":"2.0","id":3,"method":"fails"}`)
	h.want(`HTTP status 502`)
}

// In 2026-07-28 the end of its stream cancels a request, which on stdio is a
// notification.
func TestCancelOnStdioEndsTheStream(t *testing.T) {
	begun, gone := make(chan struct{}), make(chan struct{})
	h := start(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // else the end of the connection is not seen
		close(begun)
		<-r.Context().Done()
		close(gone)
	})
	h.say(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":` + modernMeta + `}`)
	<-begun
	h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`)
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("the request goes on")
	}
	h.in.Close()
	if err := <-h.ended; err != nil {
		t.Error(err)
	}
	if line, more := <-h.lines; more {
		t.Errorf("a cancelled request was answered: %s", line)
	}
}
