package upstream

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"net/http"

	"taskgate/wire"
)

// notOK is the *Error of a response that is not a success, else nil.
func notOK(resp *http.Response) error {
	if resp.StatusCode/100 == 2 {
		return nil
	}
	excerpt, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	return refused(resp.StatusCode, excerpt)
}

func isEventStream(resp *http.Response) bool {
	return wire.MediaType(resp.Header.Get("Content-Type")) == "text/event-stream"
}

// errStreamEnded: the server has closed the stream.
var errStreamEnded = errors.New("the stream ended")

// events hands out the events of a stream that answers no single request until
// the stream ends or f returns an error.
func (e *endpoint) events(resp *http.Response, f func(wire.Event) error) error {
	body, err := plain(newPeeker(), resp.Body)
	if err != nil {
		return broken(resp.StatusCode, "read the stream: %w", err)
	}
	var stopped error
	err = wire.ReadStream(body, e.opts.MaxEvent, func(ev wire.Event) error {
		if stopped = f(ev); stopped != nil {
			return wire.ErrStop
		}
		return nil
	})
	switch {
	case stopped != nil:
		return stopped
	case errors.Is(err, wire.ErrEventTooLarge):
		return tooLarge(resp.StatusCode, int64(e.opts.MaxEvent), int64(e.opts.MaxEvent))
	case err != nil:
		return broken(resp.StatusCode, "the stream broke off: %w", err)
	}
	return errStreamEnded
}

// messages are those of an event. One that cannot be read comes with an error,
// and with its id if that could be.
func messages(ev wire.Event) iter.Seq2[wire.Message, *wire.Error] {
	return func(yield func(wire.Message, *wire.Error) bool) {
		if ev.Data == nil {
			return
		}
		data := bytes.TrimLeft(ev.Data, "\ufeff \t\r\n")
		batch, ok := unbatch(data)
		if !ok {
			yield(wire.Decode(data))
			return
		}
		for _, raw := range batch {
			if m, bad := wire.Decode(raw); !yield(m, bad) {
				return
			}
		}
	}
}
