package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"taskgate/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// stores are the kinds of store that a test runs over, by name; each call makes
// a new one.
func stores(t testing.TB) map[string]func(testing.TB) string {
	t.Helper()
	return map[string]func(testing.TB) string{
		"embedded": func(t testing.TB) string { return filepath.Join(t.TempDir(), "taskgate.db") },
		"redis":    func(t testing.TB) string { return redistest.Start(t).URL() },
	}
}
