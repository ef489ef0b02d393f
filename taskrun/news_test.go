package taskrun

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Whoever brings news is heard, however close he comes to the moment in which the
// one who is awake goes to sleep. Two are never awake at once: the race detector
// would see both count.
func TestNobodySleepsThroughNews(t *testing.T) {
	for round := range 20_000 {
		var m mailbox
		var ready, heard [2]int
		var there atomic.Int32
		var wg sync.WaitGroup
		for i := range ready {
			wg.Go(func() {
				ready[i] = 1
				for there.Add(1); there.Load() < 2; {
					runtime.Gosched()
				}
				for range i * (round % 300) { // at other moments of what the first one does
				}
				if m.add(changed << i) {
					for !m.sleep() {
						n := m.take()
						for k := range heard {
							if n&(changed<<k) != 0 {
								heard[k] += ready[k]
							}
						}
					}
				}
			})
		}
		wg.Wait()
		if heard != [2]int{1, 1} {
			t.Fatalf("heard is %v, want that of both, once", heard)
		}
	}
}
