package stdiofront

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"taskgate/wire"
)

// send posts a message and writes what comes back. A request that gets no answer
// is answered with an error.
func (b *Bridge) send(ctx context.Context, msg wire.Message, line []byte) {
	header := http.Header{}
	if msg.IsRequest() && wire.IsModern(msg.Params) {
		params, _ := wire.ParseObject(msg.Params) // decoded once already
		wire.SetHeaders(header, msg.Method, params)
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer b.begin(msg.ID, end)()
	}
	err := b.exchange(ctx, http.MethodPost, header, line, string(msg.ID))
	if err != nil && msg.IsRequest() && ctx.Err() == nil {
		b.write(wire.Failure(msg.ID, wire.Errorf(wire.CodeInternal, "The gateway did not answer: %v", err)).Bytes())
	}
}

func (b *Bridge) begin(id wire.Raw, end context.CancelFunc) (done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.modern[string(id)] = end
	return func() {
		end()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.modern, string(id))
	}
}

func (b *Bridge) inSession() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session != ""
}

// listen keeps the stream open that belongs to no request.
func (b *Bridge) listen(ctx context.Context) {
	for b.inSession() && ctx.Err() == nil {
		_ = b.exchange(ctx, http.MethodGet, nil, nil, "")
		select {
		case <-time.After(b.opts.Again):
		case <-ctx.Done():
		}
	}
}

var errNoAnswer = errors.New("it closed the stream")

// exchange makes one request of HTTP and writes all messages that come back.
// awaited is the id of the response that must be among them; "": none must.
func (b *Bridge) exchange(ctx context.Context, method string, header http.Header, body []byte, awaited string) error {
	req, err := http.NewRequestWithContext(ctx, method, b.opts.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	b.setHeader(req, header)
	resp, err := b.opts.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return b.events(resp.Body, awaited)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, int64(b.opts.MaxMessage)))
	switch {
	case err != nil:
		return err
	case len(text) == 0 && awaited != "" && resp.StatusCode != http.StatusAccepted:
		return fmt.Errorf("HTTP status %d", resp.StatusCode)
	case len(text) == 0 || awaited == "": // what answers no request is an error that the host did not ask for
		return nil
	}
	b.opened(resp.Header, text)
	b.write(text)
	return nil
}

func (b *Bridge) events(body io.Reader, awaited string) error {
	answered := awaited == ""
	err := wire.ReadEvents(body, b.opts.MaxMessage, func(e wire.Event) error {
		b.write(e.Data)
		if msg, rpc := wire.Decode(e.Data); rpc == nil && msg.IsResponse() && string(msg.ID) == awaited {
			answered = true
		}
		return nil
	})
	if answered {
		return nil
	}
	return errors.Join(err, errNoAnswer)
}

func (b *Bridge) setHeader(req *http.Request, more http.Header) {
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session != "" {
		req.Header.Set(wire.HeaderSession, b.session)
		req.Header.Set(wire.HeaderVersion, b.version)
	}
	for name, values := range more {
		req.Header[name] = values
	}
}

// opened takes the session over that the answer to initialize has opened.
func (b *Bridge) opened(h http.Header, text []byte) {
	id := h.Get(wire.HeaderSession)
	if id == "" {
		return
	}
	msg, _ := wire.Decode(text)
	result, _ := wire.ParseObject(msg.Result)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session = id
	b.version, _ = wire.String(result.Get("protocolVersion"))
}
