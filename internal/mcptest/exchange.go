package mcptest

import (
	"net/http"
	"sync"
	"sync/atomic"

	"taskgate/wire"
)

// CancelMode is what an Upstream does when a client cancels a call.
type CancelMode int

// Cancel modes. All of them have been seen in real servers.
const (
	CancelStops   CancelMode = iota // the tool is told; no response; the stream ends
	CancelAnswers                   // the tool is told; what it returns is the response
	CancelSilent                    // the tool runs on; no response; the stream stays open
	CancelIgnored                   // nothing happens
)

// exchange is one request and the stream of its answer.
type exchange struct {
	request   wire.Message
	params    wire.Object
	header    http.Header
	stream    *stream
	done      chan struct{}
	stop      func() // closes done
	cancelled atomic.Bool
	ran       atomic.Pointer[Ran] // nil until a tool runs
}

func newExchange(rec Received, params wire.Object, streamID string) *exchange {
	done := make(chan struct{})
	return &exchange{
		request: rec.Message, params: params, header: rec.Header, stream: newStream(streamID),
		done: done, stop: sync.OnceFunc(func() { close(done) }),
	}
}

// run runs the tool of a tools/call in the background and answers on the
// stream. settle turns what the tool returned into the response.
func (u *Upstream) run(x *exchange, tool Tool, c *Call, settle func(wire.Raw, *wire.Error) wire.Message) {
	c.x = x
	ran := u.begin(c)
	x.ran.Store(ran)
	if x.cancelled.Load() { // before it ran
		u.note(ran, func(r *Ran) { r.Cancelled = true })
	}
	u.runs.Go(func() {
		result, err := tool.Run(c)
		u.note(ran, func(r *Ran) { r.Ended = true })
		u.finish(x, settle(result, err))
	})
}

// finish says the response, unless a cancel forbids it.
func (u *Upstream) finish(x *exchange, response wire.Message) {
	cancelled := x.cancelled.Load()
	if cancelled && u.Cancel == CancelSilent {
		return // and leaves the stream open
	}
	if !cancelled || u.Cancel != CancelStops {
		x.stream.append(response)
	}
	x.stream.close()
	u.forget(x)
}

// cancel is what the client asked for by its era's means.
func (u *Upstream) cancel(x *exchange) {
	x.cancelled.Store(true)
	if ran := x.ran.Load(); ran != nil {
		u.note(ran, func(r *Ran) { r.Cancelled = true })
	}
	if u.Cancel == CancelStops || u.Cancel == CancelAnswers {
		x.stop()
	}
}

// keep registers a running exchange; it is false when the upstream closes.
func (u *Upstream) keep(x *exchange) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closing {
		return false
	}
	u.open[x] = true
	return true
}

func (u *Upstream) forget(x *exchange) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open, x)
}

// CutStreams breaks the connections of all running calls. The tools run on.
func (u *Upstream) CutStreams() {
	for _, x := range u.running() {
		x.stream.cut()
	}
}

func (u *Upstream) running() []*exchange {
	u.mu.Lock()
	defer u.mu.Unlock()
	var list []*exchange
	for x := range u.open {
		list = append(list, x)
	}
	return list
}
