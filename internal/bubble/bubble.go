// Package bubble moves the fake clock of testing/synctest. A test that uses it
// waits for nothing real, and fails where it would.
package bubble

import (
	"testing/synctest"
	"time"
)

// Advance moves the fake clock of the bubble on by d. It returns when all that was
// due by then has been done, as far as it can be. Outside a bubble it panics. One
// goroutine of a bubble may call it at a time.
func Advance(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}
