// Package apptest runs whole gateways in the process of a test.
package apptest

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

// defaults are for what a configuration does not say itself.
var defaults = map[string]string{
	"listen":      "127.0.0.1:0",
	"adminListen": `""`,
	"store":       "memory",
	"timeouts":    "{drain: 0s}",
	"policy":      "[$DIR/policy.yaml]",
	"audit":       "{to: none}",
}

// Start runs a gateway until the test ends. $DIR in the configuration stands for
// a directory of its own, which is returned as well; the policy is a file there.
// A configuration that cannot be loaded, and an error of Run, fail the test.
func Start(t testing.TB, log *zap.Logger, configuration, policy string, environ ...string) (g *app.App, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, value := range defaults {
		if !strings.Contains("\n"+configuration, "\n"+name+":") {
			configuration = name + ": " + value + "\n" + configuration
		}
	}
	write(t, filepath.Join(dir, "policy.yaml"), policy)
	write(t, filepath.Join(dir, "config.yaml"), strings.ReplaceAll(configuration, "$DIR", dir))
	cfg, err := config.Load(filepath.Join(dir, "config.yaml"), environ, nil)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = app.New(t.Context(), cfg, "test", log); err != nil {
		t.Fatal(err)
	}
	run(t, g)
	return g, dir
}

func run(t testing.TB, g *app.App) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("gateway: %v", err)
		}
	})
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
