package faults

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskgate/internal/mcptest"
)

const (
	fleetSize  = 3
	numClients = 20
)

// Twenty clients work with three gateways while one thing after another breaks,
// at moments and in an order that the seed decides. TASKGATE_FAULTS says how many
// (make faults: 500), TASKGATE_SEED which.
func TestPromisesHoldUnderFaults(t *testing.T) {
	seed := number(t, "TASKGATE_SEED", rand.Uint64()>>1)
	count := number(t, "TASKGATE_FAULTS", 30)
	t.Logf("run it again: TASKGATE_SEED=%d TASKGATE_FAULTS=%d", seed, count)
	f := startFleet(t, fleetSize, hurried)
	clients := make([]*client, numClients)
	for i := range clients {
		clients[i] = newClient(t, f, fmt.Sprintf("c%d", i), newRandom(seed, uint64(i+1)))
	}

	began := time.Now()
	handles, struck := f.suffer(t, clients, newRandom(seed, 0), int(count))
	f.settle(t, clients, handles)
	events := f.history.Events()
	t.Logf("%s\n%d faults in %v: %s", numbers(events), count, time.Since(began).Round(time.Second), list(struck))
	for _, v := range Check(events, bounds) {
		t.Error(v)
	}
	if len(handles) < int(count) {
		t.Errorf("only %d tasks were made: the test has proved little", len(handles))
	}
}

// suffer has the clients work while faults strike.
func (f *fleet) suffer(t *testing.T, clients []*client, random *rand.Rand, count int) (handles []handle, struck map[string]int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	var working sync.WaitGroup
	for _, c := range clients {
		working.Go(func() {
			got := c.work(ctx)
			mu.Lock()
			defer mu.Unlock()
			handles = append(handles, got...)
		})
	}
	defer working.Wait()
	defer stop()
	struck = map[string]int{}
	for n := range count {
		if n > 0 && n%50 == 0 {
			t.Logf("%d faults so far", n)
		}
		wait(random, 0, time.Second)
		fault := choose(random)
		struck[fault.name]++
		fault.strike(t, f, random)
	}
	wait(random, time.Second, 2*time.Second)
	stop()
	working.Wait()
	return handles, struck
}

// settle sees every task to its end, and looks at it once more from everywhere.
func (f *fleet) settle(t *testing.T, clients []*client, handles []handle) {
	t.Helper()
	var looking sync.WaitGroup
	for i, c := range clients {
		looking.Go(func() {
			for n := i; n < len(handles); n += len(clients) {
				c.seeOff(t, handles[n])
			}
		})
	}
	looking.Wait()
}

func (c *client) seeOff(t *testing.T, h handle) {
	deadline := time.Now().Add(2 * (bounds.Lapse + 3*bounds.Work))
	if !c.seesEnd(t, h, deadline, func() *mcptest.Client { return c.any(h.era) }) {
		return
	}
	for _, conn := range c.conns[h.era] {
		c.seesEnd(t, h, deadline, func() *mcptest.Client { return conn })
	}
}

// seesEnd looks until the task has ended. A gateway that has no answer is asked again: a
// store may be slow. One that does not know the task has broken a promise, as the history says.
func (c *client) seesEnd(t *testing.T, h handle, deadline time.Time, conn func() *mcptest.Client) bool {
	for {
		status, err := c.look(t.Context(), conn(), h)
		if terminal(status) {
			return true
		}
		if time.Now().After(deadline) {
			t.Errorf("call %s: task %s does not end when all is well again: it is %q, error %v", h.call, h.id, status, err)
			return false
		}
		c.rest(t.Context())
	}
}

// numbers says how much was proved.
func numbers(events []Event) string {
	kinds, ends, last := map[string]int{}, map[string]int{}, map[string]string{}
	for _, e := range events {
		kinds[string(e.Kind)]++
		if e.Kind == Saw {
			last[e.Call] = e.Status
		}
	}
	for _, status := range last {
		ends[status]++
	}
	return "events: " + list(kinds) + "\ntasks: " + list(ends)
}

func list(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
