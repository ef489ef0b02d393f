package app_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// TestSmuggling sends the requests of testdata/smuggling.txtar, byte by byte, and
// holds what the upstream got against what the client was told: it saw exactly
// one well-formed call for each 2xx, and nothing else.
func TestSmuggling(t *testing.T) {
	corpus, err := txtar.ParseFile("testdata/smuggling.txtar")
	if err != nil {
		t.Fatal(err)
	}
	u := mcptest.NewModern(askingTools()...)
	u.JSON = true
	g := start(t, "upstreams: [{name: u, url: \""+u.Start(t)+"\", era: modern}]\n", "rules: []\n",
		"TASKGATE_TIMEOUTS_READ_HEADER=300ms", "TASKGATE_TIMEOUTS_BODY=300ms")
	endpoint, err := url.Parse(g.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range corpus.Files {
		t.Run(file.Name, func(t *testing.T) {
			first, text, _ := strings.Cut(string(file.Data), "\n")
			want, ok := strings.CutPrefix(first, "want: ")
			if !ok {
				t.Fatalf("begins with %q, not with what is wanted", first)
			}
			ran, sent := len(u.Calls("", "")), len(u.Requests("tools/call"))
			got := exchange(t, endpoint.Host, rawRequest(t, text), want)
			if strings.Join(got, " ") != want {
				t.Errorf("answered %v, want %s", got, want)
			}
			good := 0
			for _, status := range got {
				if status[0] == '2' {
					good++
				}
			}
			if n := len(u.Calls("echo", "smuggling")) - ran; n != good {
				t.Errorf("the tool ran %d times for %d good answers", n, good)
			}
			if n := len(u.Requests("tools/call")) - sent; n != good {
				t.Errorf("the upstream got %d calls for %d good answers", n, good)
			}
		})
	}
	for _, r := range u.Requests("") {
		if r.Message.Method != "tools/call" {
			if r.Message.Method != "tools/list" && r.Message.Method != "server/discover" {
				t.Errorf("the upstream got %s %q", r.Method, r.Body)
			}
			continue
		}
		if r.Method != http.MethodPost || strings.Join(r.Header.Values(wire.HeaderName), ",") != "echo" || strings.Join(r.Header.Values("Content-Length"), ",") != strconv.Itoa(len(r.Body)) {
			t.Errorf("the upstream got a call that is not well-formed: %s %v", r.Method, r.Header)
		}
	}
}

// exchange sends raw bytes and returns the statuses of all answers, "closed" when
// there is none. The line stays open until as many have come as are wanted.
func exchange(t *testing.T, address string, raw []byte, want string) (statuses []string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	go func() { _, _ = conn.Write(raw) }() // until all is sent, or nobody wants more of it
	answers := bufio.NewReader(conn)
	for wanted := len(strings.Fields(want)); ; {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			if len(statuses) == 0 {
				return []string{"closed"}
			}
			return statuses
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatalf("the answer broke off: %v", err)
		}
		if statuses = append(statuses, strconv.Itoa(resp.StatusCode)); len(statuses) == wanted {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}
}

const (
	smuggledBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"key":"smuggling","text":"hi"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	smuggledHead = "Host: localhost\nContent-Type: application/json\nAccept: application/json\nMCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/call"
)

var (
	repeated = regexp.MustCompile(`(?s)\$\((.*?)\*(\d+)\)`)
	escaped  = regexp.MustCompile(`\\(x[0-9a-f]{2}|[rnt\\])`)
)

// rawRequest is the text with each line ended by CRLF, but for the last, and those
// that end in a backslash. In it $HEAD are good headers but for Mcp-Name, $BODY is
// a good body, $LEN its length and $HEX that in hex, $GZIP and $GZLEN the same
// compressed; $(x*9) is nine times x, and \r, \n and \x00 are what they are in Go.
func rawRequest(t *testing.T, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.WriteString(w, smuggledBody); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	text = strings.TrimSuffix(strings.ReplaceAll(text, "$HEAD", smuggledHead), "\n")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\\\n", ""), "\n", "\r\n")
	text = escaped.ReplaceAllStringFunc(text, func(s string) string {
		s, err := strconv.Unquote(`"` + s + `"`)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	text = repeated.ReplaceAllStringFunc(text, func(s string) string {
		m := repeated.FindStringSubmatch(s)
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Repeat(m[1], n)
	})
	return []byte(strings.NewReplacer("$BODY", smuggledBody, "$LEN", strconv.Itoa(len(smuggledBody)), "$HEX", fmt.Sprintf("%x", len(smuggledBody)),
		"$GZIP", packed.String(), "$GZLEN", strconv.Itoa(packed.Len())).Replace(text))
}
