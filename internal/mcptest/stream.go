package mcptest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"taskgate/wire"
)

// stream is the log of what was said in answer to one request. It is written
// once, by the call, and read by as many connections as come: the response, and
// those that resume it. So a lost connection never disturbs the call.
type stream struct {
	id string // of the stream; "" writes no event ids

	mu      sync.Mutex
	events  []event
	readers int
	closed  bool
	changed chan struct{} // closed and replaced at every change
}

type event struct {
	kind    eventKind
	message wire.Message
}

type eventKind int

const (
	said   eventKind = iota
	primed           // an id without data, so that even an empty stream can be resumed
	broken           // here the connection breaks, once
	mended
)

var errCut = errors.New("the stream was cut")

// newStream returns a stream with its first reader, the response.
func newStream(id string) *stream {
	s := &stream{id: id, changed: make(chan struct{}), readers: 1}
	if id != "" {
		s.events = []event{{kind: primed}}
	}
	return s
}

func (s *stream) append(m wire.Message) {
	s.change(func() { s.events = append(s.events, event{message: m}) })
}

// close ends the stream after what was appended.
func (s *stream) close() { s.change(func() { s.closed = true }) }

// cut breaks the connection that reads the stream, after what was appended.
func (s *stream) cut() {
	s.change(func() {
		if s.readers > 0 {
			s.events = append(s.events, event{kind: broken})
		}
	})
}

func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// resume counts a reader that came later.
func (s *stream) resume() { s.change(func() { s.readers++ }) }

func (s *stream) length() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events)
}

// reading counts the readers that came later and have not left.
func (s *stream) reading() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readers - 1
}

func (s *stream) leave() { s.change(func() { s.readers-- }) }

// next waits for event n; ok is false after the last one.
func (s *stream) next(ctx context.Context, n int) (e event, ok bool, err error) {
	for {
		e, ok, changed := s.peek(n)
		switch {
		case ok && e.kind == broken:
			return e, false, errCut
		case ok || changed == nil:
			return e, ok, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return e, false, ctx.Err()
		}
	}
}

// peek returns event n, or what to wait for, which is nil at the end.
func (s *stream) peek(n int) (e event, ok bool, changed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < len(s.events) {
		e = s.events[n]
		if e.kind == broken {
			s.events[n].kind = mended
		}
		return e, true, nil
	}
	if s.closed {
		return e, false, nil
	}
	return e, false, s.changed
}

// serve writes the events from number from on as SSE until the stream ends. It
// breaks the connection where the stream was cut, and returns ctx.Err() when
// the client is gone.
func (s *stream) serve(ctx context.Context, w http.ResponseWriter, from int) error {
	defer s.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
	flush(w)
	for n := from; ; n++ {
		e, ok, err := s.next(ctx, n)
		if errors.Is(err, errCut) {
			panic(http.ErrAbortHandler)
		}
		if err != nil || !ok {
			return err
		}
		s.write(w, n, e)
		flush(w)
	}
}

// write does not look at errors: a lost client shows in the context.
func (s *stream) write(w http.ResponseWriter, n int, e event) {
	if s.id != "" && e.kind != mended {
		_, _ = fmt.Fprintf(w, "id: %s/%d\n", s.id, n)
	}
	switch e.kind {
	case said:
		_, _ = w.Write(wire.AppendEvent(nil, e.message.Bytes()))
	case primed:
		_, _ = fmt.Fprint(w, "data: \n\n")
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// serveJSON writes the response as JSON and nothing else.
func (s *stream) serveJSON(ctx context.Context, w http.ResponseWriter, status func(wire.Message) int) error {
	defer s.leave()
	for n := 0; ; n++ {
		e, ok, err := s.next(ctx, n)
		switch {
		case errors.Is(err, errCut):
			panic(http.ErrAbortHandler)
		case err != nil || !ok:
			return err
		case e.kind == said && e.message.IsResponse():
			writeMessage(w, status(e.message), e.message)
			return nil
		}
	}
}

func writeMessage(w http.ResponseWriter, status int, m wire.Message) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(m.Bytes())
}
