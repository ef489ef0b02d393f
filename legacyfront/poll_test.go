package legacyfront_test

import (
	"net/http"
	"testing"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app/apptest"
	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/wire"
)

// A server that ends its stream to be polled has its client polled too, which may
// be at another replica; and only where the client knows how to.
func TestAServerThatWantsToBePolled(t *testing.T) {
	for version, sentAway := range map[string]bool{"2025-06-18": false, "2025-11-25": true} {
		t.Run(version, func(t *testing.T) {
			goOn := make(chan struct{})
			url, store := mcptest.Polled(t, goOn), redistest.Start(t).URL()
			a, b := gateway(t, url, store), gateway(t, url, store)
			c := open(t, a, version, `{}`)
			r := c.call(a, "polled")
			if sentAway {
				var last wire.Event
				for last = range r.events {
					if last.Data != nil {
						t.Errorf("before the stream ended: %s", last.Data)
					}
				}
				check(t, "retry", last.Retry, mcptest.PollAfter)
				r = c.do(http.MethodGet, b, "", wire.HeaderLastEvent, last.ID)
			}
			close(goOn)
			check(t, "result", string(r.until("").Result), `{"content":[{"type":"text","text":"done"}]}`)
		})
	}
}

// What runs for a client that was sent away is waited for when the gateway stops.
func TestAPolledCallEndsBeforeItsGatewayDoes(t *testing.T) {
	goOn := make(chan struct{})
	url, store := mcptest.Polled(t, goOn), redistest.Start(t).URL()
	config := "store: " + store + "\nupstreams: [{name: up, url: \"" + url + "\"}]\ntimeouts: {drain: 20s, holdAfter: 100ms}\n"
	stopping := apptest.Start(t, zap.NewNop(), config, "defaults: {promoteAfter: 0s}\n")
	b := apptest.Start(t, zap.NewNop(), config, "defaults: {promoteAfter: 0s}\n").Endpoints()[0]
	a := stopping.Endpoints()[0]
	c := open(t, a, "2025-11-25", `{}`)
	var last wire.Event
	for last = range c.call(a, "polled").events {
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stopping.Stop(t)
	}()
	close(goOn)
	<-stopped
	r := c.do(http.MethodGet, b, "", wire.HeaderLastEvent, last.ID)
	check(t, "result", string(r.until("").Result), `{"content":[{"type":"text","text":"done"}]}`)
}
