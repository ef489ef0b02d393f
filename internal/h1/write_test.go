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
	for _, c := range []struct{ method, url, body string }{
		{"POST", "http://localhost:8080/mcp", "body"},
		{"POST", "http://localhost/mcp", ""},
		{"GET", "http://localhost/a%2Fb?q=%20x", ""},
		{"DELETE", "http://[::1]:80/", ""},
		{"GET", "http://[fe80::1%25eth0]:80/", ""},
		{"GET", "http://bücher.example", ""},
	} {
		req, err := http.NewRequest(c.method, c.url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"X-Two": {"a", " b "}, "User-Agent": {"test"}, "x-Small": {"1"}, "Content-Length": {"77"}, "Host": {"evil"}, "Transfer-Encoding": {"chunked"}}
		head, err := appendHead(nil, &Request{Method: req.Method, URL: req.URL, Header: req.Header}, len(c.body))
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
	for name, spoil := range map[string]func(*Request){
		"method":              func(r *Request) { r.Method = "POST /x HTTP/1.1\r\nX:" },
		"method without body": func(r *Request) { r.Method = "HEAD" },
		"host":                func(r *Request) { r.URL.Host = "a b" },
		"name":                func(r *Request) { r.Header["A: b\r\nC"] = []string{"d"} },
		"value":               func(r *Request) { r.Header["A"] = []string{"b\r\nC: d"} },
	} {
		req := request(t, "http://127.0.0.1:1/", "body")
		spoil(req)
		var sent atomic.Bool
		if x, err := tr.Start(t.Context(), req, &sent); err == nil || sent.Load() || dialled.Load() != 0 {
			t.Errorf("%s: %v %v, sent: %v, %d connections", name, x, err, sent.Load(), dialled.Load())
		}
	}
}
