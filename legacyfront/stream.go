package legacyfront

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"taskgate/wire"
)

// stream writes to a client: one answer as JSON, or, once there was something to
// say before it, a stream of events. A client that has gone is written to no
// more, and what runs for it runs on: in this era a lost connection is no
// cancellation (transports, Sending Messages to the Server).
type stream struct {
	f       *Front
	w       http.ResponseWriter
	rc      *http.ResponseController
	ctx     context.Context // of the HTTP request
	name    string          // begins the ids of its events
	primes  bool            // begin with an empty event, which gives the client an id to come back with
	started bool
	gone    bool
	said    int // events that are kept
}

func (f *Front) newStream(w http.ResponseWriter, req *http.Request, s *session, name string) *stream {
	return &stream{f: f, w: w, rc: http.NewResponseController(w), ctx: req.Context(), name: name,
		// Older clients take an event without data for a broken message.
		primes: s.Version >= wire.LegacyVersion}
}

// start makes the response a stream.
func (o *stream) start() {
	if o.started {
		return
	}
	o.begin()
	if o.primes {
		o.write([]byte(o.idField() + "data:\n\n"))
	}
}

func (o *stream) begin() {
	o.started = true
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
}

// only makes a message that is there already a stream of its own, which nobody
// has to come back for.
func (o *stream) only(msg []byte) {
	o.begin()
	o.write(wire.AppendEvent(nil, msg))
}

// idField numbers an event by how many have been kept so far: who comes back
// with it gets those after it.
func (o *stream) idField() string { return "id: " + o.name + "." + strconv.Itoa(o.said) + "\n" }

// parseEventID is the way back.
func parseEventID(id string) (name string, said int, ok bool) {
	name, n, ok := strings.Cut(id, ".")
	said, err := strconv.Atoi(n)
	return name, said, ok && err == nil && said >= 0
}

// event writes a message as the next event.
func (o *stream) event(msg []byte) {
	o.start()
	o.write(wire.AppendEvent([]byte(o.idField()), msg))
}

// alive shows a client that waits that nothing is lost.
func (o *stream) alive() {
	o.start()
	o.write(wire.KeepAlive)
}

// hangUp tells the client to come back after so many milliseconds. What comes later
// is not written here.
func (o *stream) hangUp(retry wire.Raw) {
	o.start()
	o.write([]byte(o.idField() + "retry: " + string(retry) + "\ndata:\n\n"))
	o.gone = true
}

func (o *stream) write(b []byte) {
	if o.gone || o.ctx.Err() != nil {
		o.gone = true
		return
	}
	_ = o.rc.SetWriteDeadline(time.Now().Add(o.f.opts.WriteTimeout)) // not all writers can
	if _, err := o.w.Write(b); err != nil {
		o.gone = true
		return
	}
	o.gone = o.rc.Flush() != nil
}
