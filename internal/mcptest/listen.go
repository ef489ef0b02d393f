package mcptest

import (
	"net/http"
	"sync"

	"taskgate/wire"
)

// listeners are the open subscriptions/listen streams of a modern upstream.
type listeners struct {
	mu   sync.Mutex
	open map[*exchange]wire.Filter
}

// listen serves one stream. It honours what the upstream's capabilities offer.
func (e *modern) listen(w http.ResponseWriter, r *http.Request, rec Received, params wire.Object) *wire.Error {
	filter, err := wire.ParseFilter(params.Get("notifications"))
	if err != nil {
		return err
	}
	x := newExchange(rec, params, "")
	if !e.u.keep(x) {
		return wire.Errorf(wire.CodeInternal, "closing")
	}
	honoured := filter.WithoutTasks().Offered(e.u.capabilities())
	x.say(wire.NoteAcknowledged, wire.Object{}.With("notifications", honoured.Object().Bytes()))
	e.listeners.add(x, honoured)
	e.u.runs.Go(func() {
		<-x.done
		e.listeners.remove(x)
		e.u.forget(x)
		x.stream.append(wire.Result(rec.Message.ID, modernResult("subscriptions/listen", x.tag(wire.Object{}).Bytes())))
		x.stream.close()
	})
	defer x.stop()
	_ = x.stream.serve(r.Context(), w, 0) // a client that is gone hears nothing more
	return nil
}

// say sends a notification on the subscription.
func (x *exchange) say(method string, params wire.Object) {
	x.stream.append(wire.Message{Method: method, Params: x.tag(params).Bytes()})
}

func (x *exchange) tag(o wire.Object) wire.Object {
	meta, _ := o.Object("_meta")
	return o.With("_meta", meta.With(wire.MetaSubscriptionID, x.request.ID).Bytes())
}

func (l *listeners) add(x *exchange, f wire.Filter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*exchange]wire.Filter{}
	}
	l.open[x] = f
}

func (l *listeners) remove(x *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, x)
}

func (l *listeners) tell(m wire.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for x, f := range l.open {
		if f.Admits(m.Method, m.Params) {
			params, _ := m.ParamsObject()
			x.say(m.Method, params)
		}
	}
}

// CutListening breaks the connections that Listening counts.
func (u *Upstream) CutListening() {
	switch e := u.era.(type) {
	case *modern:
		e.listeners.mu.Lock()
		defer e.listeners.mu.Unlock()
		for x := range e.listeners.open {
			x.stream.cut()
		}
	case *legacy:
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, s := range e.sessions {
			s.standalone.cut()
		}
	}
}

// Listening counts the streams that are listened to now: subscriptions of a
// modern upstream, open GET streams of a legacy one.
func (u *Upstream) Listening() (n int) {
	switch e := u.era.(type) {
	case *modern:
		e.listeners.mu.Lock()
		defer e.listeners.mu.Unlock()
		return len(e.listeners.open)
	case *legacy:
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, s := range e.sessions {
			n += s.standalone.reading()
		}
	}
	return n
}
