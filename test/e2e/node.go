package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Modules is the folder of the npm packages that make deps installs.
func Modules(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(os.Getenv("TASKGATE_NPM"), "node_modules")
	if _, err := os.Stat(filepath.Join(dir, "@modelcontextprotocol")); err != nil {
		t.Fatalf("npm packages (make deps installs them and sets TASKGATE_NPM): %v", err)
	}
	return dir
}

// node is the Node that comes with the packages; several need version 22.
func node(t testing.TB) string {
	t.Helper()
	if own := filepath.Join(Modules(t), "node", "bin", "node"); exists(own) {
		return own
	}
	return "node"
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// RunNode runs a script to its end and returns its standard output. The script
// must exit with 0.
func RunNode(t testing.TB, env []string, script string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience) // also in a Cleanup
	defer cancel()
	cmd := exec.CommandContext(ctx, node(t), append([]string{script}, args...)...)
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

// RunDriver runs a script of testdata, which imports npm packages: Node looks for
// them beside the script, so it runs from a folder that has both.
func RunDriver(t testing.TB, script string, args ...string) []byte {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", script))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, script)
	if err := os.WriteFile(copied, source, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(Modules(t), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return RunNode(t, nil, copied, args...)
}
