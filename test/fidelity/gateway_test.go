package fidelity

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app"
	"taskgate/config"
)

// serve runs a gateway until the test ends and returns its endpoint.
func serve(t *testing.T, upstream, store string) string {
	dir := t.TempDir()
	yaml := "listen: 127.0.0.1:0\nadminListen: \"\"\nstore: \"" + store + "\"\ntimeouts: {drain: 0s}\npolicy: [$DIR/policy.yaml]\naudit: {to: none}\n" +
		"upstreams: [{name: tools, url: " + upstream + "}]\n"
	for name, text := range map[string]string{"policy.yaml": policyFile, "config.yaml": strings.ReplaceAll(yaml, "$DIR", dir)} {
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
