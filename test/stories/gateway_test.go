package stories

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app/apptest"
	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/wire"
)

// place is where a story happens: a gateway between an upstream and a client.
type place struct {
	up      *mcptest.Upstream
	script  *script
	redis   *redistest.Server // nil: tasks are kept in memory
	client  *mcptest.Client
	gateway *apptest.Gateway

	configuration, policy string
}

// traits are what the heading of a story's policy says of the upstream.
var traits = map[string]func(*mcptest.Upstream){
	"requestState":       func(u *mcptest.Upstream) { u.RequestState = true },
	"numbers its events": func(u *mcptest.Upstream) { u.Resumable = true },
	"asks all the same":  func(u *mcptest.Upstream) { u.Insistent = true },
	"makes its own tasks": func(u *mcptest.Upstream) {
		u.Capabilities = wire.Raw(`{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`)
	},
	"tells of changes": func(u *mcptest.Upstream) {
		u.Capabilities = wire.Raw(`{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`)
		for _, method := range []string{"resources/subscribe", "resources/unsubscribe"} {
			u.Handle(method, func(wire.Object) (wire.Raw, *wire.Error) { return wire.Raw(`{}`), nil })
		}
	},
}

// build reads the heading of a story's policy, as "gateway with Redis, before a
// legacy upstream that numbers its events", and starts what it names.
func build(t *testing.T, heading, policy, limits string) *place {
	p := &place{script: newScript(), policy: policy}
	era, store := "legacy", "memory"
	if strings.Contains(heading, "modern") {
		era, p.up = "modern", mcptest.NewModern(p.script.tools()...)
	} else {
		p.up = mcptest.NewLegacy(p.script.tools()...)
	}
	for name, give := range traits {
		if strings.Contains(heading, name) {
			give(p.up)
		}
	}
	if strings.Contains(heading, "Redis") {
		p.redis = redistest.Start(t, "--appendfsync", "always") // what is told of must outlive a kill
		store = p.redis.URL()
	}
	t.Cleanup(p.script.goOn) // nobody waits when the upstream closes
	p.configuration = "store: " + store + "\ntimeouts: {drain: 0s, store: 300ms, holdAfter: 20s}\n" +
		"upstreams: [{name: tools, url: " + p.up.Start(t) + ", era: " + era + ", limits: " + limits + "}]\n"
	p.client = mcptest.NewClient("", mcptest.NoCapabilities)
	t.Cleanup(p.client.Close)
	p.start(t)
	return p
}

// start lets a gateway begin, the first one or another, to which the client
// turns from now on.
func (p *place) start(t *testing.T) {
	p.gateway = apptest.Start(t, zap.NewNop(), p.configuration, p.policy)
	p.client.URL = p.gateway.Endpoints()[0]
}
