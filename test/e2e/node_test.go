package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"taskgate/internal/mcptest"
)

// runNode runs a script to its end and returns its standard output. The script
// must exit with 0.
func runNode(t testing.TB, env []string, script string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience) // also in a Cleanup
	defer cancel()
	cmd := exec.CommandContext(ctx, mcptest.Node(t), append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Logf("standard error of %s:\n%s", script, exit.Stderr)
		}
		t.Fatalf("%s %v: %v\n%s", script, args, err, out)
	}
	return out
}

// runDriver runs a script of testdata, which imports npm packages: Node looks for
// them beside the script, so it runs from a folder that has both.
func runDriver(t testing.TB, script string, args ...string) []byte {
	t.Helper()
	return runNode(t, nil, filepath.Join(mcptest.Scripts(t, "testdata"), script), args...)
}
