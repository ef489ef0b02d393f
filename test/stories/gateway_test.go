package stories

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app"
	"taskgate/config"
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
	yaml := "listen: 127.0.0.1:0\nadminListen: \"\"\nstore: " + store + "\ntimeouts: {drain: 0s, store: 300ms}\npolicy: [$DIR/policy.yaml]\naudit: {to: none}\n" +
		"upstreams: [{name: tools, url: " + p.up.Start(t) + ", era: " + era + ", limits: " + limits + "}]\n"
	p.client = mcptest.NewClient(serve(t, yaml, policy), mcptest.NoCapabilities)
	t.Cleanup(p.client.Close)
	return p
}

// serve runs a gateway until the test ends and returns its endpoint.
func serve(t *testing.T, yaml, policy string) string {
	dir := t.TempDir()
	for name, text := range map[string]string{"policy.yaml": policy, "config.yaml": strings.ReplaceAll(yaml, "$DIR", dir)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(dir, "config.yaml"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := app.New(t.Context(), cfg, "test", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("gateway: %v", err)
		}
	})
	return g.Endpoints()[0]
}
