package mcptest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Eventually waits until condition holds; after limit the test fails with what
// was waited for.
func Eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", limit, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Goroutines makes the test fail when it leaves goroutines behind that were not
// there when this was called. It is to be called first, so that it looks last.
func Goroutines(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}
