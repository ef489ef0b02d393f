package mcptest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// NPM returns the folder that holds node_modules with the npm parts of the
// tests. It is named by TASKGATE_NPM; a test that needs it fails without it.
func NPM(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("TASKGATE_NPM")
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); dir == "" || err != nil {
		t.Fatalf("TASKGATE_NPM=%q has no node_modules: run make deps, and set it to the folder that holds them", dir)
	}
	return dir
}

// NPMFile returns the path of a file below node_modules.
func NPMFile(t testing.TB, path ...string) string {
	t.Helper()
	file := filepath.Join(append([]string{NPM(t), "node_modules"}, path...)...)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v: run make deps", err)
	}
	return file
}

// Node returns the node program among the npm parts, or the one of the machine
// where npm has none for the platform.
func Node(t testing.TB) string {
	t.Helper()
	file := filepath.Join(NPM(t), "node_modules", "node", "bin", "node")
	if _, err := os.Stat(file); err == nil {
		return file
	}
	file, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("%v: run make deps", err)
	}
	return file
}

// Scripts copies the scripts of some folders into a new one in which they find
// the npm parts that they import, and returns it. Node looks for those only beside
// a script.
func Scripts(t testing.TB, folders ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range folders {
		if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(NPMFile(t), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}
