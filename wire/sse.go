package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/tmaxmax/go-sse"
)

// Event is one server-sent event.
type Event struct {
	ID   string // the last id seen on the stream, "" when events have none
	Data Raw    // nil when it carries no message
	// Endpoint is the data of an event "endpoint" (2024-11-05,
	// basic/transports#http-with-sse), "" of others.
	Endpoint string
	// Retry is how long the server last asked to wait before coming back to
	// the stream; 0: it did not ask.
	Retry time.Duration
}

var (
	// ErrStop ends ReadEvents without an error.
	ErrStop = errors.New("stop reading")
	// ErrEventTooLarge is wrapped by the error for an event over the limit.
	ErrEventTooLarge = errors.New("server-sent event is too large")
)

// ReadEvents calls f for every event that carries a message, until the stream
// ends or f returns an error. Comments, events without data (priming events) and
// events of other names than "message" are passed over; their ids count.
// A last event without its blank line is handed out too: some servers close
// right after the data. An event larger than limit bytes is an error.
func ReadEvents(r io.Reader, limit int, f func(Event) error) error {
	return ReadStream(r, limit, func(e Event) error {
		if e.Data == nil {
			return nil
		}
		return f(e)
	})
}

// ReadStream is ReadEvents for who wants to come back to the stream: f is called
// for events without a message too.
func ReadStream(r io.Reader, limit int, f func(Event) error) error {
	reader := &eventReader{r: io.MultiReader(r, bytes.NewReader([]byte("\n\n"))), lineStart: true}
	for e, err := range sse.Read(reader, &sse.ReadConfig{MaxEventSize: limit}) {
		if errors.Is(err, bufio.ErrTooLong) {
			return fmt.Errorf("%w: the limit is %d bytes", ErrEventTooLarge, limit)
		}
		if err != nil {
			return err
		}
		event := Event{ID: e.LastEventID, Retry: reader.retry}
		if e.Data != "" && (e.Type == "" || e.Type == "message") {
			event.Data = Raw(e.Data)
		}
		if e.Type == "endpoint" {
			event.Endpoint = e.Data
		}
		if err := f(event); err != nil {
			if errors.Is(err, ErrStop) {
				return nil
			}
			return err
		}
	}
	return nil
}

// eventReader gathers what comes in small pieces until a blank line completes
// an event or the reader's buffer is full. The parser looks at an unfinished
// event from its start after each read, so that without this a large event in
// packet-sized pieces costs seconds (8 MiB in 4 KiB pieces: 7 s).
type eventReader struct {
	r         io.Reader
	err       error // to be returned once the bytes before it are
	lineStart bool  // the last byte ended a line
	afterCR   bool  // ... and was a CR; a LF now belongs to it
	retry     time.Duration
}

func (e *eventReader) Read(p []byte) (n int, err error) {
	for n < len(p) && e.err == nil {
		var m int
		m, e.err = e.r.Read(p[n:])
		n += m
		if e.sawBlankLine(p[n-m : n]) {
			break
		}
	}
	e.noteRetry(p[:n])
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, e.err
}

// noteRetry looks for the one field that the parser keeps to itself. In what
// was gathered an event begins with a line, and a short one is all there.
func (e *eventReader) noteRetry(b []byte) {
	if !bytes.Contains(b, []byte("retry:")) {
		return
	}
	for line := range bytes.FieldsFuncSeq(b, func(r rune) bool { return r == '\n' || r == '\r' }) {
		value, found := bytes.CutPrefix(line, []byte("retry:"))
		if ms, err := strconv.ParseUint(string(bytes.TrimPrefix(value, []byte(" "))), 10, 31); found && err == nil {
			e.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

func (e *eventReader) sawBlankLine(b []byte) (blank bool) {
	for _, c := range b {
		switch {
		case c == '\n' && e.afterCR:
			e.afterCR = false
		case c == '\n' || c == '\r':
			blank = blank || e.lineStart
			e.lineStart, e.afterCR = true, c == '\r'
		default:
			e.lineStart, e.afterCR = false, false
		}
	}
	return blank
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

// NotePoll is no method of the protocol. Within the gateway it says that a server has
// ended the stream of a call before its answer and wants to be polled for that; its
// params have "retry", the milliseconds until then.
const NotePoll = "taskgate/poll"

// KeepAlive is the comment that keeps a quiet stream open.
var KeepAlive = []byte(": keep-alive\n\n")
