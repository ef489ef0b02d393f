// Package legacyfront serves clients of 2025-03-26, 2025-06-18 and 2025-11-25. It
// is a client of the front for 2026-07-28 in the same process: it makes each of
// their requests one of that protocol, and the answer one of theirs, so that
// admission, policy, holding and translation toward upstreams exist once.
//
// No replica owns a session: the session id holds what initialize has agreed on,
// sealed, and the little that changes afterwards is a note in the store. So any
// replica takes any request of it.
package legacyfront

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"taskgate/proxy"
	"taskgate/taskroute"
	"taskgate/wire"
)

// Options of a Front. Every one must be set.
type Options struct {
	// SessionLife is how long a session id is good.
	SessionLife time.Duration
	// Kept is how long what was said on a stream can be asked for again, after
	// the last of it; MaxKept, in bytes, how large a message may be for that.
	Kept    time.Duration
	MaxKept int
	// StoreTimeout bounds one operation of the store.
	StoreTimeout time.Duration
	// Recheck is how often a note is read that somebody waits for and no hint
	// has told of.
	Recheck time.Duration
	// KeepAlive is the time between comments on a stream that is quiet.
	KeepAlive time.Duration
	// WriteTimeout bounds each write to a client.
	WriteTimeout time.Duration

	// Extend says what a revision has beyond what this package serves.
	Extend func(version string) Extension

	Now func() time.Time
	Log *zap.Logger
}

// Front serves legacy clients.
type Front struct {
	opts    Options
	store   *taskroute.Store
	sealer  sealer
	closing chan struct{}  // closed when what waits for a client is to end
	running sync.WaitGroup // calls, some of them without a connection
}

// New returns a Front that keeps its notes in store.
func New(store *taskroute.Store, o Options) *Front {
	return &Front{opts: o, store: store, sealer: sealer{store: store}, closing: make(chan struct{})}
}

// CloseStreams ends what waits for clients.
func (f *Front) CloseStreams() { close(f.closing) }

// Wait waits until no call runs any more, or until ctx ends. By then no request may
// be served any more, so that what runs has no connection.
func (f *Front) Wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		f.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Serve answers an HTTP request that was let in. The message is zero for GET and
// DELETE.
func (f *Front) Serve(w http.ResponseWriter, req *http.Request, v *proxy.Visit, msg wire.Message) {
	if msg.Method == "initialize" && msg.IsRequest() {
		f.initialize(w, req, v, msg)
		return
	}
	s, err := f.session(req, v)
	if err != nil {
		refuse(w, msg.ID, err)
		return
	}
	switch {
	case req.Method == http.MethodDelete:
		f.end(w, req, s)
	case req.Method == http.MethodGet:
		f.get(w, req, v, s)
	case msg.IsResponse():
		f.answered(w, req, s, msg)
	case msg.IsNotification():
		f.notified(w, req, s, msg)
	default:
		f.request(w, req, v, s, msg)
	}
}

// refusal is an answer that has an HTTP status of its own.
type refusal struct {
	status int
	rpc    *wire.Error
}

func (e *refusal) Error() string { return e.rpc.Error() }

// refuse answers a request that comes to nothing.
func refuse(w http.ResponseWriter, id wire.Raw, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{http.StatusServiceUnavailable, storeDown}
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, r.status, wire.Failure(id, r.rpc))
}

var storeDown = wire.Errorf(wire.CodeInternal, "The store cannot be reached right now; ask again").
	WithData(map[string]any{"reason": "store_unavailable", "retriable": true})

func writeJSON(w http.ResponseWriter, status int, msg wire.Message) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(msg.Bytes()) // a client that is gone needs no answer
}

// briefly bounds one operation of the store, which is not given up because the
// client has gone.
func (f *Front) briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), f.opts.StoreTimeout)
}
