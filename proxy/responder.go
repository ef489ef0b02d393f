package proxy

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"taskgate/wire"
)

// responder writes the one answer of a request: as JSON, or, once there was
// something to say before the answer, as the last event of a stream.
type responder struct {
	w            http.ResponseWriter
	rc           http.ResponseController
	id           wire.Raw
	canStream    bool // the client accepts SSE
	holdAfter    time.Duration
	keepAlive    time.Duration
	writeTimeout time.Duration
	retryAfter   time.Duration // told with a refusal; 0: not known

	detachable bool // the connection is one of HTTP/1.1, with nothing between it and w
	streaming  bool // headers of a stream are out; the answer is its last event

	// rest goes on with the stream where a method has left it, and returns its end. nil: the
	// method has returned that. Nothing of the method's stack is kept meanwhile.
	rest func(context.Context) (wire.Raw, error)

	mu     sync.Mutex
	queued int64         // bytes in queue
	limit  int64         // of queued
	queue  chan []byte   // what goes out before the answer; nil until there is any
	done   chan struct{} // the queue has been written
	closed bool          // no more notifications
}

// queueLength bounds what waits for a slow client, beside Options.BufferBytes. A
// notification that does not fit is dropped: each is only a hint, and an
// upstream must not wait for it.
const queueLength = 64

func newResponder(w http.ResponseWriter, header http.Header, o *Options) *responder {
	return &responder{w: w, rc: *http.NewResponseController(w), canStream: wire.AcceptsEvents(header),
		limit: o.BufferBytes, holdAfter: o.HoldAfter, keepAlive: o.KeepAlive, writeTimeout: o.WriteTimeout}
}

// notify sends a notification ahead of the answer. It never blocks.
func (o *responder) notify(method string, params wire.Raw) {
	if o.canStream {
		o.push(wire.AppendEvent(nil, wire.Message{Method: method, Params: params}.Bytes()))
	}
}

// holdOpen arranges for early headers and keep-alive comments while the client
// waits, until the timer is stopped.
func (o *responder) holdOpen() *time.Timer {
	return time.AfterFunc(o.holdAfter, func() {
		if o.canStream {
			o.push(wire.KeepAlive)
		}
	})
}

func (o *responder) push(event []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if o.queue == nil {
		o.queue, o.done = make(chan []byte, queueLength), make(chan struct{})
		o.stream()
		go o.writeQueue()
	}
	if o.queued+int64(len(event)) > o.limit {
		return
	}
	select {
	case o.queue <- event:
		o.queued += int64(len(event))
	default:
	}
}

// dequeued makes room: the event is on its way.
func (o *responder) dequeued(event []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queued -= int64(len(event))
}

// asEvent makes the answer an event of a stream, if the client takes that.
func (o *responder) asEvent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.canStream && !o.streaming {
		o.stream()
	}
}

// stream makes the response a stream of events.
func (o *responder) stream() {
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back (streamable-http, Receiving Messages)
	o.streaming = true
}

// streamAlone makes it a stream that may take the connection over, and so ends it:
// the client is not to send another request there.
func (o *responder) streamAlone() {
	if o.stream(); o.detachable {
		o.w.Header().Set("Connection", "close")
	}
}

// writeQueue writes what is queued, and a comment whenever there was nothing
// for a while.
func (o *responder) writeQueue() {
	defer close(o.done)
	quiet := time.NewTicker(o.keepAlive)
	defer quiet.Stop()
	for {
		select {
		case event, ok := <-o.queue:
			if !ok {
				return
			}
			_ = o.write(event)
			o.dequeued(event)
			quiet.Reset(o.keepAlive)
		case <-quiet.C:
			_ = o.write(wire.KeepAlive)
		}
	}
}

// write sends bytes at once. After an error the client is gone, which the
// request's context tells too.
func (o *responder) write(b []byte) error {
	if err := o.put(b); err != nil {
		return err
	}
	return o.rc.Flush()
}

// put writes bytes, each piece within the time for it.
func (o *responder) put(b []byte) error {
	for piece := range slices.Chunk(b, maxPiece) {
		_ = o.rc.SetWriteDeadline(time.Now().Add(o.writeTimeout))
		if _, err := o.w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// maxPiece, in bytes, is what a client must be able to take within a write's
// time: a large answer over a thin line takes as many of these as it needs.
const maxPiece = 64 << 10

// announced, in bytes, is how long an answer may be for net/http to have all of it
// when it writes the header, and to say its length itself.
const announced = 1 << 10

// jsonType is a value of Content-Type.
var jsonType = []string{"application/json"}

// finish writes the answer. It is called once, last.
func (o *responder) finish(status int, msg wire.Message) {
	o.mu.Lock()
	o.closed = true
	queue := o.queue
	o.mu.Unlock()
	if msg.ID == nil && msg.Error != nil {
		msg.ID = wire.Raw("null")
	}
	body := msg.Pieces()
	if queue != nil {
		close(queue)
		<-o.done
	}
	if o.streaming {
		_ = o.write(wire.AppendEvent(nil, body.Bytes()))
		return
	}
	h := o.w.Header()
	h["Content-Type"] = jsonType
	if body.Len() > announced {
		h.Set("Content-Length", strconv.Itoa(body.Len()))
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(o.retryAfter.Seconds())))))
	}
	o.w.WriteHeader(status)
	for _, piece := range body {
		if o.put(piece) != nil {
			return // a client that is gone needs no answer
		}
	}
}
