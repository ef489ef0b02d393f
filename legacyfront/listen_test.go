package legacyfront_test

import (
	"net/http"
	"strconv"
	"strings"
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

// changing is a server that tells of one resource, as often as told to.
func changing(t *testing.T) (up *mcptest.Upstream, tell func(n int)) {
	up = mcptest.NewLegacy()
	up.Capabilities = wire.Raw(`{"resources":{"subscribe":true}}`)
	up.Handle("resources/subscribe", func(wire.Object) (wire.Raw, *wire.Error) { return wire.Raw(`{}`), nil })
	return up, func(n int) {
		up.Broadcast(wire.Message{Method: wire.NoteResource, Params: wire.Raw(`{"uri":"a:b","n":` + strconv.Itoa(n) + `}`)})
	}
}

// Of several streams of a session the latest speaks, whatever replica it is at; when
// it ends, one of the others goes on.
func TestAMessageGoesOutOnOneStream(t *testing.T) {
	up, tell := changing(t)
	a, b := replicas(t, up)
	c := open(t, a, "2025-11-25", `{}`)
	c.request(a, "resources/subscribe", `{"uri":"a:b"}`).result()
	first := c.do(http.MethodGet, a, "")
	tell(0)
	first.until(wire.NoteResource)
	second := c.do(http.MethodGet, b, "")
	const last = 200 // by then the first has heard of the second
	for n := 1; n <= last; n++ {
		tell(n)
		for !strings.HasSuffix(string(second.until(wire.NoteResource).Params), `"n":`+strconv.Itoa(n)+`}`) {
		}
	}
	second.Body.Close()
	for {
		params := string(first.until(wire.NoteResource).Params)
		if strings.HasSuffix(params, `"n":`+strconv.Itoa(last)+`}`) {
			t.Fatalf("said on both streams: %s", params)
		}
		if params == `{"uri":"a:b"}` { // told to look again, since it has the floor again
			break
		}
	}
	tell(last + 1)
	afterwards := `{"uri":"a:b","n":` + strconv.Itoa(last+1) + `}`
	for string(first.until(wire.NoteResource).Params) != afterwards {
		// Each replica hears of a change from the server. One that was late with it says it
		// once more, when it has the floor by then.
	}
}
