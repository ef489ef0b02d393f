package stories

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app/apptest"
	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
)

// place is where a story happens: a gateway between an upstream and a client.
type place struct {
	up     *mcptest.Upstream
	script *script
	redis  *redistest.Server // nil: tasks are kept in memory
	client *mcptest.Client
}

// build reads the heading of a story's policy, as "gateway with Redis, before a
// legacy upstream", and starts what it names.
func build(t *testing.T, heading, policy, limits string) *place {
	p := &place{script: newScript()}
	era, store := "legacy", "memory"
	if strings.Contains(heading, "modern") {
		era, p.up = "modern", mcptest.NewModern(p.script.tools()...)
		p.up.RequestState = strings.Contains(heading, "requestState")
	} else {
		p.up = mcptest.NewLegacy(p.script.tools()...)
	}
	if strings.Contains(heading, "Redis") {
		p.redis = redistest.Start(t, "--appendfsync", "always") // what is told of must outlive a kill
		store = p.redis.URL()
	}
	t.Cleanup(p.script.goOn) // nobody waits when the upstream closes
	configuration := "store: " + store + "\ntimeouts: {drain: 0s, store: 300ms}\n" +
		"upstreams: [{name: tools, url: " + p.up.Start(t) + ", era: " + era + ", limits: " + limits + "}]\n"
	g, _ := apptest.Start(t, zap.NewNop(), configuration, policy)
	p.client = mcptest.NewClient(g.Endpoints()[0], mcptest.NoCapabilities)
	t.Cleanup(p.client.Close)
	return p
}
