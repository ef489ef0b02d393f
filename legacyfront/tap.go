package legacyfront

import (
	"bytes"
	"context"
	"net/http"

	"taskgate/proxy"
	"taskgate/wire"
)

// tap takes what the modern front writes to a client, as messages. It is written
// to by one goroutine after the other, never by two at once.
type tap struct {
	header http.Header
	status int
	buf    bytes.Buffer
	// said is called with each notification that comes ahead of the answer, and
	// with a zero message when the front only shows that it is alive.
	said  func(wire.Message)
	reply wire.Message
}

// ask asks the modern front and returns when it has answered.
func ask(ctx context.Context, v *proxy.Visit, msg wire.Message, said func(wire.Message)) *tap {
	t := &tap{header: http.Header{}, status: http.StatusOK, said: said}
	v.Ask(ctx, t, msg)
	if t.buf.Len() > 0 { // an answer that is no event
		t.reply, _ = wire.Decode(t.buf.Bytes()) // the gateway's own
	}
	return t
}

// Header implements http.ResponseWriter.
func (t *tap) Header() http.Header { return t.header }

// WriteHeader implements http.ResponseWriter.
func (t *tap) WriteHeader(status int) { t.status = status }

// Write implements http.ResponseWriter.
func (t *tap) Write(b []byte) (int, error) { return t.buf.Write(b) }

// Flush implements http.Flusher: whole events are there.
func (t *tap) Flush() {
	heard := false
	_ = wire.ReadEvents(&t.buf, t.buf.Len()+1, func(e wire.Event) error { // the gateway's own
		heard = true
		msg, _ := wire.Decode(e.Data)
		if msg.IsResponse() {
			t.reply = msg
		} else {
			t.say(msg)
		}
		return nil
	})
	t.buf.Reset()
	if !heard {
		t.say(wire.Message{})
	}
}

func (t *tap) say(msg wire.Message) {
	if t.said != nil {
		t.said(msg)
	}
}

// answer is what the front has answered.
func (t *tap) answer() Answer { return Answer{Result: t.reply.Result, Error: t.reply.Error, from: t} }
