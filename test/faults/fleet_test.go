package faults

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/test/e2e"
)

const (
	lease = 2 * time.Second
	ttl   = 2 * time.Hour
	// margin is what a machine with few processors, all of them busy, needs.
	margin = 6 * time.Second
)

var bounds = Bounds{TTL: ttl, Work: maxWork, Lapse: 2*lease + margin}

const fleetPolicy = `
defaults: {promoteAfter: 50ms, pollInterval: 100ms, ttl: 2h}
rules:
  - {match: {tool: again}, onLoss: rerun, maxAttempts: 3}
`

// attempts is how often policy lets a tool be called.
func attempts(tool string) int {
	if tool == "again" {
		return 3
	}
	return 1
}

// replica is one gateway, and its own way to Redis.
type replica struct {
	*e2e.Gateway
	toRedis *mcptest.Cutter
	urls    []string // of its endpoints; Gateway may be restarting
}

// fleet is gateways on one Redis in front of upstreams of both eras, and of one that resumes.
type fleet struct {
	history   *History
	redis     *redistest.Server
	upstreams []*server
	replicas  []*replica
}

func startFleet(t *testing.T, size int) *fleet {
	t.Helper()
	f := &fleet{history: &History{}, redis: redistest.Start(t, "--appendfsync", "always")}
	legacy := startServer(t, func() *mcptest.Upstream { return mcptest.NewLegacy(tools(f.history)...) })
	modern := startServer(t, func() *mcptest.Upstream { return mcptest.NewModern(tools(f.history)...) })
	resumable := startServer(t, func() *mcptest.Upstream {
		u := mcptest.NewLegacy(tools(f.history)...)
		u.Resumable = true
		return u
	})
	f.upstreams = []*server{legacy, modern, resumable}
	config := fmt.Sprintf(`
lease: %s
timeouts: {store: 1s, drain: 2s}
limits: {maxOpenTasksPerPrincipal: 100000}
upstreams:
  - {name: legacy, path: /legacy, url: %q}
  - {name: modern, path: /modern, url: %q}
  - {name: resumable, path: /resumable, url: %q}
`, lease, legacy.url, modern.url, resumable.url)
	for range size {
		cutter := mcptest.NewCutter(t, f.redis.Addr)
		g := e2e.Start(t, e2e.Options{Store: "redis://" + cutter.Addr(), Policy: fleetPolicy, Config: config})
		f.replicas = append(f.replicas, &replica{Gateway: g, toRedis: cutter, urls: g.Endpoints})
	}
	return f
}

// outage puts down that nobody could work while f ran.
func (f *fleet) outage(during func()) {
	began := time.Now()
	during()
	f.history.Add(Event{Kind: Outage, Began: began})
}

// restart starts an upstream again, which forgets all it knew.
func (s *server) restart(t *testing.T) {
	t.Helper()
	s.stop()
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	s.start(t, u.Host)
}
