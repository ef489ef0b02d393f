package upstream

import (
	"bytes"
	"errors"
	"io"
	"mime"
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
	t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return t == "text/event-stream"
}

// errStreamEnded: the server has closed the stream.
var errStreamEnded = errors.New("the stream ended")

// events hands out the messages of a stream that answers no single request,
// each with the id of its event, until the stream ends or f returns an error.
// What cannot be read is passed over.
func (e *endpoint) events(resp *http.Response, f func(id string, m wire.Message) error) error {
	body, err := plain(resp.Body)
	if err != nil {
		return broken(resp.StatusCode, "read the stream: %w", err)
	}
	var stopped error
	err = wire.ReadEvents(body, e.opts.MaxEvent, func(ev wire.Event) error {
		for _, raw := range unbatch(bytes.TrimLeft(ev.Data, "\ufeff \t\r\n")) {
			m, bad := wire.Decode(raw)
			if bad != nil {
				continue
			}
			if stopped = f(ev.ID, m); stopped != nil {
				return wire.ErrStop
			}
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
