package wire

import (
	"bytes"
	"errors"
	"io"

	"github.com/tmaxmax/go-sse"
)

// Event is one server-sent event that carries a message.
type Event struct {
	ID   string // the last id seen on the stream, "" when events have none
	Data Raw
}

// ErrStop ends ReadEvents without an error.
var ErrStop = errors.New("stop reading")

// ReadEvents calls f for every event that carries data, until the stream ends
// or f returns an error. Comments, events without data (priming events) and
// events of other names than "message" are passed over; their ids count.
// A last event without its blank line is handed out too: some servers close
// right after the data. An event larger than limit bytes is an error.
func ReadEvents(r io.Reader, limit int, f func(Event) error) error {
	r = io.MultiReader(r, bytes.NewReader([]byte("\n\n")))
	for e, err := range sse.Read(r, &sse.ReadConfig{MaxEventSize: limit}) {
		if err != nil {
			return err
		}
		if e.Data == "" || (e.Type != "" && e.Type != "message") {
			continue
		}
		if err := f(Event{ID: e.LastEventID, Data: Raw(e.Data)}); err != nil {
			if errors.Is(err, ErrStop) {
				return nil
			}
			return err
		}
	}
	return nil
}

// AppendEvent writes one message as a server-sent event. Line breaks inside the
// JSON, which can only be white space between tokens, become data lines of
// their own.
func AppendEvent(out, data []byte) []byte {
	out = append(out, "event: message\n"...)
	for line := range bytes.FieldsFuncSeq(data, func(r rune) bool { return r == '\n' || r == '\r' }) {
		out = append(out, "data: "...)
		out = append(out, line...)
		out = append(out, '\n')
	}
	return append(out, '\n')
}

// KeepAlive is the comment that keeps a quiet stream open.
var KeepAlive = []byte(": keep-alive\n\n")
