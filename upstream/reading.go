package upstream

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"taskgate/wire"
)

// errNoResponse: the answer is complete, but the response is not in it.
var errNoResponse = errors.New("no response to this request")

// maxRefusal is how much of an HTTP error's body is looked at, in bytes.
const maxRefusal = 64 << 10

// reading finds the response to one request among the messages of a body.
type reading struct {
	id      wire.Raw
	receive func(wire.Message)
	seen    func(wire.Event) // gets each event after its messages were received; may be nil

	answer     answer
	found      bool
	unreadable error // the last message that was none
}

// read takes the response to the request from an HTTP response. Errors are
// *Error.
func (e *endpoint) read(resp *http.Response, r *reading) (answer, error) {
	r.answer.status, r.answer.session = resp.StatusCode, resp.Header.Get(wire.HeaderSession)
	begin := e.peekers.Get().(*bufio.Reader)
	defer func() {
		begin.Reset(nil)
		e.peekers.Put(begin)
	}()
	body, err := plain(begin, resp.Body)
	switch {
	case err != nil:
		return answer{}, broken(resp.StatusCode, "read the answer: %w", err)
	case resp.StatusCode/100 != 2:
		return r.refusal(body)
	case isJSON(resp.Header.Get("Content-Type"), body):
		err = r.json(e.bodies, body, resp.ContentLength, e.opts.MaxResponse)
	default:
		err = r.events(body, e.opts.MaxEvent)
	}
	if err != nil {
		return answer{}, err
	}
	return r.answer, nil
}

// newPeeker has room for the beginning of a body; what is read whole goes around it.
func newPeeker() *bufio.Reader { return bufio.NewReaderSize(nil, maxSpace) }

// plain undoes gzip, which some servers apply unasked and without saying so.
// Neither JSON nor events begin like that, as b shows.
func plain(b *bufio.Reader, body io.Reader) (*bufio.Reader, error) {
	b.Reset(body)
	magic, err := b.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(magic) != "\x1f\x8b" {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return bufio.NewReader(z), nil
}

// maxSpace is how far the first byte is looked for that is no white space.
const maxSpace = 64

// isJSON believes the content type if it is one of the two, else the first
// byte that is no white space.
func isJSON(contentType string, body *bufio.Reader) bool {
	switch wire.MediaType(contentType) {
	case "application/json":
		return true
	case "text/event-stream":
		return false
	}
	for n := 1; n <= maxSpace; n++ {
		b, err := body.Peek(n)
		if err != nil {
			return false
		}
		switch b[n-1] {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF: // white space and a byte order mark
		default:
			return b[n-1] == '{' || b[n-1] == '['
		}
	}
	return false
}

func (r *reading) json(bodies *wire.Bodies, body io.Reader, announced, limit int64) error {
	if announced > limit {
		return tooLarge(r.answer.status, announced, limit)
	}
	b, err := bodies.ReadAll(io.LimitReader(body, limit+1), announced)
	if int64(len(b)) > limit {
		return tooLarge(r.answer.status, int64(len(b)), limit)
	}
	if err != nil {
		return broken(r.answer.status, "the answer broke off after %d bytes: %w", len(b), err)
	}
	r.answer.whole = true
	r.take(b)
	return r.check("the body is something else")
}

func (r *reading) events(body io.Reader, limit int) error {
	err := wire.ReadStream(body, limit, func(ev wire.Event) error {
		if ev.Data != nil && r.take(ev.Data) {
			return wire.ErrStop
		}
		if r.seen != nil {
			r.seen(ev)
		}
		return nil
	})
	switch {
	case errors.Is(err, wire.ErrEventTooLarge):
		return tooLarge(r.answer.status, int64(limit), int64(limit))
	case err != nil:
		return broken(r.answer.status, "the stream broke off without a response: %w", err)
	}
	r.answer.Streamed = true
	return r.check("the stream ended without one")
}

func (r *reading) check(otherwise string) error {
	switch {
	case r.found:
		return nil
	case r.unreadable != nil:
		return broken(r.answer.status, "%w: %s; a message could not be read: %w", errNoResponse, otherwise, r.unreadable)
	}
	return broken(r.answer.status, "%w: %s", errNoResponse, otherwise)
}

// take sorts one message, or the batch that 2025-03-26 allows, and tells
// whether that is all there is to wait for. What cannot be read is passed over,
// since the response may still come, unless it bears the request's id.
func (r *reading) take(data wire.Raw) (done bool) {
	for m, bad := range messages(wire.Event{Data: data}) {
		mine := m.ID != nil && string(m.ID) == string(r.id)
		switch {
		case bad != nil:
			r.unreadable = bad
			done = done || mine
		case !m.IsResponse():
			r.receive(m)
		case mine || m.ID == nil: // an error for an id that could not be read
			r.answer.Reply, r.answer.named, r.found = Reply{Result: m.Result, Error: m.Error}, mine, true
			done = true
		}
	}
	return done
}

// unbatch takes a batch apart; ok is false for anything else.
func unbatch(data wire.Raw) (_ []wire.Raw, ok bool) {
	if len(data) == 0 || data[0] != '[' {
		return nil, false
	}
	var batch []wire.Raw
	ok = json.Unmarshal(data, &batch) == nil
	return batch, ok
}

// refusal reads the body of an HTTP error. A JSON-RPC error in it is the
// answer, except where HTTP itself says more: credentials are refused, or the
// server failed and does not even name the request.
func (r *reading) refusal(body io.Reader) (answer, error) {
	b, _ := io.ReadAll(io.LimitReader(body, maxRefusal))
	failure := refused(r.answer.status, b)
	m, bad := wire.Decode(b)
	if bad != nil || m.Error == nil || failure.Kind == Unauthorized {
		return answer{}, failure
	}
	r.answer.named = m.ID != nil && string(m.ID) == string(r.id)
	if !r.answer.named && r.answer.status >= 500 {
		return answer{}, failure
	}
	r.answer.Reply = Reply{Error: m.Error}
	return r.answer, nil
}
