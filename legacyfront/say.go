package legacyfront

import (
	"go.uber.org/zap"

	"taskgate/wire"
)

// relay passes on what comes ahead of the answer.
func (c *Call) relay(msg wire.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch msg.Method {
	case "":
		c.beginStream()
		c.out.alive()
	case wire.NotePoll:
		c.hangUp(msg.Params)
	default:
		c.beginStream()
		c.out.event(msg.Bytes())
	}
}

// hangUp ends the client's connection because the server has ended its own and
// wants to be polled (2025-11-25, basic/transports, Sending Messages to the Server).
// The answer is kept for when the client comes back.
func (c *Call) hangUp(params wire.Raw) {
	if !c.out.primes || c.out.gone || !c.keep(func(*leg) {}) {
		return
	}
	o, _ := wire.ParseObject(params)
	c.out.hangUp(o.Get("retry"))
	close(c.polled)
}

// beginStream makes the answer a stream, and has the store know of it before the
// client does: it may come back for it elsewhere.
func (c *Call) beginStream() {
	if !c.out.started {
		c.keep(func(*leg) {})
		c.out.start()
	}
}

// keep changes what is kept of the call; false: the store does not take it.
func (c *Call) keep(change func(*leg)) bool {
	err := c.f.changeLeg(c.out.ctx, c.key, func(l *leg) error {
		l.ID = c.msg.ID
		change(l)
		return nil
	})
	if err != nil {
		c.f.opts.Log.Warn("a stream cannot be taken up again: the store has no note of it", zap.Error(err))
	}
	return err == nil
}

// finish answers. What goes out on a stream is kept first: if the stream is dead,
// the client asks for it again.
func (c *Call) finish(a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	msg := wire.Message{ID: c.msg.ID}
	if msg.Error = a.Error; msg.Error != nil {
		msg.Error = wire.LegacyError(c.msg.Method, msg.Error)
	} else {
		msg.Result = wire.LegacyResult(a.Result)
	}
	event := msg.Bytes()
	switch {
	case c.out.started:
	case a.streamed():
		c.out.only(event)
		return
	default:
		a.write(c.out.w, msg)
		return
	}
	if c.keep(func(l *leg) { l.end(c.keepable(event)) }) {
		c.out.said++
	}
	c.out.event(event)
}

// keepable is an answer as it is kept: who comes back for one that is too large is
// told so.
func (c *Call) keepable(event []byte) []byte {
	if len(event) <= c.f.opts.MaxKept {
		return event
	}
	return wire.Failure(c.msg.ID, wire.Errorf(wire.CodeInternal, "The answer has %d bytes and was not kept for a client that comes back; the limit is %d", len(event), c.f.opts.MaxKept).
		WithData(map[string]any{"reason": "not_kept", "limit": c.f.opts.MaxKept, "retriable": false})).Bytes()
}
