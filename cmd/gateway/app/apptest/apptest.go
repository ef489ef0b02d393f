// Package apptest runs whole gateways in the process of a test.
package apptest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app"
	"taskgate/config"
)

// defaults are for what a configuration does not say itself.
var defaults = map[string]string{
	"listen":      "127.0.0.1:0",
	"adminListen": `""`,
	"store":       "memory",
	"timeouts":    "{drain: 0s}",
	"policy":      "[$DIR/policy.yaml]",
	"audit":       "{to: none}",
}

// Gateway is a whole gateway, but for what the process adds.
type Gateway struct {
	*app.App
	// Dir is a directory of its own, for which $DIR stands in its configuration.
	Dir string

	stop func() error
}

// Start runs a gateway until the test ends. The policy is a file of its Dir. A
// configuration that cannot be loaded, and an error of Run, fail the test.
func Start(t testing.TB, log *zap.Logger, configuration, policy string, environ ...string) *Gateway {
	t.Helper()
	g := &Gateway{Dir: t.TempDir()}
	for name, value := range defaults {
		if !strings.Contains("\n"+configuration, "\n"+name+":") {
			configuration = name + ": " + value + "\n" + configuration
		}
	}
	write(t, filepath.Join(g.Dir, "policy.yaml"), policy)
	write(t, filepath.Join(g.Dir, "config.yaml"), strings.ReplaceAll(configuration, "$DIR", g.Dir))
	cfg, err := config.Load(filepath.Join(g.Dir, "config.yaml"), environ, nil)
	if err != nil {
		t.Fatal(err)
	}
	if g.App, err = app.New(t.Context(), cfg, "test", log); err != nil {
		t.Fatal(err)
	}
	g.run(t)
	return g
}

func (g *Gateway) run(t testing.TB) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	g.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { g.Stop(t) })
}

// Stop ends the gateway before the test does, as SIGTERM would.
func (g *Gateway) Stop(t testing.TB) {
	t.Helper()
	if err := g.stop(); err != nil {
		t.Errorf("gateway: %v", err)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
