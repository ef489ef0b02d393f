package legacyfront_test

import (
	"net/http"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// A session hears on its GET stream of what it subscribed to, at whatever
// replica it did that; and after a gap of all that it may have missed.
func TestChangesAreHeardOnTheGETStream(t *testing.T) {
	up := mcptest.NewLegacy()
	up.Capabilities = wire.Raw(`{"tools":{"listChanged":true},"resources":{"subscribe":true}}`)
	ok := func(wire.Object) (wire.Raw, *wire.Error) { return wire.Raw(`{}`), nil }
	up.Handle("resources/subscribe", ok)
	up.Handle("resources/unsubscribe", ok)
	a, b := replicas(t, up)
	c := open(t, a, "2025-11-25", `{}`)

	stream := c.do(http.MethodGet, a, "")
	check(t, "status", stream.StatusCode, http.StatusOK)
	up.Broadcast(wire.Message{Method: wire.NoteTools})
	check(t, "params", string(stream.until(wire.NoteTools).Params), ``)

	c.request(b, "resources/subscribe", `{"uri":"a:b"}`).result()
	check(t, "told to look again", string(stream.until(wire.NoteResource).Params), `{"uri":"a:b"}`)
	up.Broadcast(wire.Message{Method: wire.NoteResource, Params: wire.Raw(`{"uri":"a:b","n":1}`)})
	check(t, "update", string(stream.until(wire.NoteResource).Params), `{"uri":"a:b","n":1}`)
	stream.Body.Close()

	back := c.do(http.MethodGet, b, "", wire.HeaderLastEvent, stream.lastID)
	back.until(wire.NoteTools)
	check(t, "missed update", string(back.until(wire.NoteResource).Params), `{"uri":"a:b"}`)

	check(t, "DELETE", c.do(http.MethodDelete, a, "").StatusCode, http.StatusNoContent)
	for _, more := back.next(); more; _, more = back.next() { // the stream ends with the session
	}
}

func TestStreamNeedsASession(t *testing.T) {
	a := gateway(t, mcptest.NewLegacy().Start(t), "memory")
	c := &client{t: t, caller: "ann"}
	check(t, "GET", c.do(http.MethodGet, a, "").StatusCode, http.StatusMethodNotAllowed)
	check(t, "DELETE", c.do(http.MethodDelete, a, "").StatusCode, http.StatusMethodNotAllowed)
}
