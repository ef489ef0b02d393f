package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"taskgate/wire"
)

// detach has the rest of a stream written by a goroutine of its own, with the
// connection taken over from net/http, whose buffers and deep stack are most of
// what a stream costs that only waits. It tells whether that can be.
func (h *Handler) detach(ctx context.Context, x *exchange, out *responder) bool {
	h.detached.Add(1) // before the server forgets the connection, so that it is never unknown to both
	conn, ok := out.takeOver()
	if !ok {
		h.detached.Done()
		return false
	}
	x.forget()
	out.id = x.msg.ID
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // that of a request ends with its handler
	go func() {
		defer conn.Close()
		conn.await()
		cancel()
	}()
	go func() {
		defer h.detached.Done()
		defer conn.end()
		result, err := out.rest(ctx)
		h.finish(ctx, out, x, result, err)
	}()
	return true
}

// forget drops what was asked, and the body with it, but for the id.
func (x *exchange) forget() {
	x.msg.ID, x.msg.Params = bytes.Clone(x.msg.ID), nil
	x.params, x.meta, x.header = nil, wire.Meta{}, nil
}

// takeOver takes the connection from net/http, if it is one of HTTP/1.1.
func (o *responder) takeOver() (detached, bool) {
	if !o.detachable {
		return detached{}, false
	}
	conn, _, err := o.rc.Hijack()
	if err != nil {
		return detached{}, false
	}
	d := detached{conn}
	o.w, o.rc = d, *http.NewResponseController(d)
	return d, true
}

// detached is a connection on which a response in chunks (RFC 9112, 7.1) goes on
// and ends. It is an http.ResponseWriter without a header.
type detached struct{ net.Conn }

// Header is not sent: it is too late for that.
func (detached) Header() http.Header { return http.Header{} }

// WriteHeader does nothing.
func (detached) WriteHeader(int) {}

// Flush does nothing: what was written is out.
func (detached) Flush() {}

// Write writes one chunk.
func (d detached) Write(p []byte) (int, error) {
	chunk := strconv.AppendInt(make([]byte, 0, len(p)+16), int64(len(p)), 16)
	chunk = append(append(append(chunk, "\r\n"...), p...), "\r\n"...)
	if _, err := d.Conn.Write(chunk); err != nil {
		return 0, err
	}
	return len(p), nil
}

// await waits for the client to leave. What it sends is not read as a request: it
// was told that the connection ends with the stream.
func (d detached) await() {
	for some := make([]byte, 64); ; {
		if _, err := d.Read(some); err != nil {
			return
		}
	}
}

// end ends the response, and has await end soon. Closing the connection at once
// would take back what the client has not read yet, if it has sent anything.
func (d detached) end() {
	_, _ = io.WriteString(d.Conn, "0\r\n\r\n") // a client that is gone needs no end
	if half, ok := d.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = d.SetReadDeadline(time.Now().Add(linger))
}

// linger is how long a client has to take the end of a stream.
const linger = 500 * time.Millisecond
