package h1

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
)

// appendHead writes what comes before the body (RFC 9112, 3). It refuses what could
// be taken for the end of the header, or for another.
func appendHead(b []byte, req *Request, length int) ([]byte, error) {
	host, err := hostOf(req.URL)
	switch {
	case err != nil:
		return nil, err
	case !httpguts.ValidHeaderFieldName(req.Method):
		return nil, fmt.Errorf("invalid method %q", req.Method)
	case req.Method == http.MethodHead || req.Method == http.MethodConnect:
		return nil, fmt.Errorf("the response to %s is not read like others", req.Method)
	}
	b = append(append(append(b, req.Method...), ' '), req.URL.RequestURI()...)
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), host...), "\r\n"...)
	for name, values := range req.Header {
		if b, err = appendField(b, name, values); err != nil {
			return nil, err
		}
	}
	if length > 0 || req.Method == http.MethodPost {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(length), 10), "\r\n"...)
	}
	return append(b, "\r\n"...), nil
}

// hostOf is what a request to the URL names as its server.
func hostOf(u *url.URL) (string, error) {
	host, err := httpguts.PunycodeHostPort(u.Host)
	if err != nil || !httpguts.ValidHostHeader(host) {
		return "", errors.New("invalid host")
	}
	if zone, end := strings.LastIndexByte(host, '%'), strings.LastIndexByte(host, ']'); zone >= 0 && zone < end {
		host = host[:zone] + host[end:] // it means nothing elsewhere (RFC 6874, 4)
	}
	return host, nil
}

// appendField writes a field, but for those that are not the caller's to set.
func appendField(b []byte, name string, values []string) ([]byte, error) {
	if !httpguts.ValidHeaderFieldName(name) {
		return nil, fmt.Errorf("invalid header field name %q", name)
	}
	switch name {
	case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
		return b, nil
	}
	for _, v := range values {
		if !httpguts.ValidHeaderFieldValue(v) {
			return nil, fmt.Errorf("invalid value of header field %q", name) // which may be a secret
		}
		b = append(append(append(append(b, name...), ": "...), strings.Trim(v, " \t")...), "\r\n"...)
	}
	return b, nil
}

// outgoing is a request that is ready to be written.
type outgoing struct {
	writers *sync.Pool // of *bufio.Writer, where writer is from
	writer  *bufio.Writer
	head    []byte // in the free space of writer
	body    [][]byte
	length  int // of body
}

func (t *Transport) outgoing(req *Request) (outgoing, error) {
	w, ok := t.writers.Get().(*bufio.Writer)
	if !ok {
		w = bufio.NewWriter(nil)
	}
	out := outgoing{writers: &t.writers, writer: w, body: req.Body}
	for _, piece := range req.Body {
		out.length += len(piece)
	}
	var err error
	if out.head, err = appendHead(w.AvailableBuffer(), req, out.length); err != nil {
		out.done()
	}
	return out, err
}

// done is for one that is written, or will not be.
func (out *outgoing) done() {
	out.writer.Reset(nil)
	out.writers.Put(out.writer)
}

// writeTo writes it. It is to be called once.
func (out *outgoing) writeTo(c net.Conn) error {
	defer out.done()
	out.writer.Reset(c)
	_, _ = out.writer.Write(out.head) // an error is Flush's too
	for _, piece := range out.body {
		_, _ = out.writer.Write(piece)
	}
	return out.writer.Flush()
}
