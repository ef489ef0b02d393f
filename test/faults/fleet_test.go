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

// hurried are settings that make faults show themselves soon.
const hurried = "lease: 2s\ntimeouts: {store: 1s, drain: 2s}\n"

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

// startFleet is gateways with the same settings on a Redis that loses nothing.
func startFleet(t *testing.T, size int, settings string) *fleet {
	t.Helper()
	f := newFleet(t)
	f.redis = redistest.Start(t, "--appendfsync", "always")
	for range size {
		f.joinByCutter(t, settings)
	}
	return f
}

// newFleet is one without gateways so far, and without a Redis.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{history: &History{}}
	legacy := startServer(t, func() *mcptest.Upstream { return mcptest.NewLegacy(tools(f.history)...) })
	modern := startServer(t, func() *mcptest.Upstream { return mcptest.NewModern(tools(f.history)...) })
	resumable := startServer(t, func() *mcptest.Upstream {
		u := mcptest.NewLegacy(tools(f.history)...)
		u.Resumable = true
		return u
	})
	f.upstreams = []*server{legacy, modern, resumable}
	return f
}

// joinByCutter starts a gateway that reaches the fleet's Redis by a way of its own.
func (f *fleet) joinByCutter(t *testing.T, settings string) {
	t.Helper()
	cutter := mcptest.NewCutter(t, f.redis.Addr)
	f.join(t, "redis://"+cutter.Addr(), settings, cutter)
}

// join starts a gateway on the store.
func (f *fleet) join(t *testing.T, store, settings string, toRedis *mcptest.Cutter) {
	t.Helper()
	config := fmt.Sprintf(settings+`
limits: {maxOpenTasksPerPrincipal: 100000}
upstreams:
  - {name: legacy, path: /legacy, url: %q}
  - {name: modern, path: /modern, url: %q}
  - {name: resumable, path: /resumable, url: %q}
`, f.upstreams[0].url, f.upstreams[1].url, f.upstreams[2].url)
	g := e2e.Start(t, e2e.Options{Store: store, Policy: fleetPolicy, Config: config})
	f.replicas = append(f.replicas, &replica{Gateway: g, toRedis: toRedis, urls: g.Endpoints})
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
