package h1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRequestsAreThoseOfNetHTTP reads what is written with net/http, and compares it
// with what that writes itself.
func TestRequestsAreThoseOfNetHTTP(t *testing.T) {
	for _, c := range []struct{ method, url, body, host string }{
		{"POST", "http://localhost:8080/mcp", "body", ""},
		{"POST", "http://localhost/mcp", "", ""},
		{"GET", "http://localhost/a%2Fb?q=%20x", "", ""},
		{"DELETE", "http://[::1]:80/", "", ""},
		{"GET", "http://[fe80::1%25eth0]:80/", "", ""},
		{"GET", "http://bücher.example", "", ""},
		{"GET", "http://localhost/", "", "other.example"},
	} {
		req, err := http.NewRequest(c.method, c.url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.host != "" {
			req.Host = c.host
		}
		req.Header = http.Header{"X-Two": {"a", " b "}, "User-Agent": {"test"}, "x-Small": {"1"}, "Content-Length": {"77"}, "Host": {"evil"}, "Transfer-Encoding": {"chunked"}}
		head, err := appendHead(nil, req)
		if err != nil {
			t.Errorf("%s %s: %v", c.method, c.url, err)
			continue
		}
		var theirs bytes.Buffer
		if err := req.Write(&theirs); err != nil {
			t.Fatal(err)
		}
		got, want := read(t, append(head, c.body...)), read(t, theirs.Bytes())
		if got.Method != want.Method || got.RequestURI != want.RequestURI || got.Host != want.Host || got.ContentLength != want.ContentLength || !reflect.DeepEqual(got.Header, want.Header) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

func read(t *testing.T, b []byte) *http.Request {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		t.Fatalf("%v in %q", err, b)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatalf("%v in %q", err, b)
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return req
}

func TestWhatCannotBeSentIsRefusedUnsent(t *testing.T) {
	tr, dialled := dialed(t)
	for name, spoil := range map[string]func(*http.Request){
		"method":         func(r *http.Request) { r.Method = "POST /x HTTP/1.1\r\nX:" },
		"host":           func(r *http.Request) { r.Host = "a b" },
		"length unknown": func(r *http.Request) { r.ContentLength = -1 },
		"length zero":    func(r *http.Request) { r.ContentLength = 0 },
		"name":           func(r *http.Request) { r.Header["A: b\r\nC"] = []string{"d"} },
		"value":          func(r *http.Request) { r.Header["A"] = []string{"b\r\nC: d"} },
	} {
		req, err := http.NewRequest("POST", "http://127.0.0.1:1/", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		spoil(req)
		var sent atomic.Bool
		if resp, err := tr.Start(req, &sent); err == nil || sent.Load() || dialled.Load() != 0 {
			t.Errorf("%s: %v %v, sent: %v, %d connections", name, resp, err, sent.Load(), dialled.Load())
		}
	}
}

// TestABodyIsAsLongAsAnnounced: what is more would be the next request.
func TestABodyIsAsLongAsAnnounced(t *testing.T) {
	url := raw(t, func(int) string { return ok }, nil)
	for _, length := range []int64{3, 5} {
		tr, _ := dialed(t)
		req, err := http.NewRequest("POST", url, strings.NewReader("four"))
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		if resp, err := tr.RoundTrip(req); err == nil {
			t.Errorf("4 bytes of %d: %v", length, resp)
		}
		if len(tr.idle) != 0 {
			t.Errorf("4 bytes of %d: the connection is kept", length)
		}
	}
}
