package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// The gateway is killed again and again at moments that nobody chose, while
// clients create, answer and read tasks. Whatever it has promised before must
// hold afterwards.
func TestPromisesOutliveKill(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			seed := crashSeed(t)
			random := rand.New(rand.NewPCG(seed, 0))
			g := Start(t, Options{Store: store(t), Policy: "defaults: {promoteAfter: 50ms, pollInterval: 100ms}\n",
				Config: bothEras(startFixtures(t, mcptest.NewLegacy), startFixtures(t, mcptest.NewModern))})
			seen := &sightings{status: map[handle]string{}}
			for range 8 {
				work, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for i := range 6 {
					c := newClient(t, g.Endpoints[i%2])
					choose := rand.New(rand.NewPCG(seed, random.Uint64()))
					wg.Go(func() { seen.work(work, t, c, choose) })
				}
				<-time.After(time.Duration(100+random.IntN(900)) * time.Millisecond)
				g.Kill()
				stop()
				wg.Wait()
				g.Restart(t)
				seen.check(t, newClient(t, g.Endpoint))
			}
			t.Logf("%d tasks looked after; seed %d", len(seen.status), seed)
			if len(seen.status) < 20 {
				t.Errorf("only %d tasks were made: the test has proved little", len(seen.status))
			}
			seen.finish(t, newClient(t, g.Endpoint))
		})
	}
}

func crashSeed(t *testing.T) uint64 {
	if s := os.Getenv("TASKGATE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("TASKGATE_SEED: %v", err)
		}
		return seed
	}
	return rand.Uint64()
}

func bothEras(legacy, modern string) string {
	return fmt.Sprintf(`
lease: 2s
timeouts: {store: 1s}
upstreams:
  - {name: legacy, path: /legacy, url: %q}
  - {name: modern, path: /modern, url: %q}
`, legacy, modern)
}

// confirmed answers the question of confirm_delete.
func confirmed() wire.Raw { return mcptest.Accept(`{"confirm":true}`) }

// startFixtures starts the suite's fixture tools on a server of one era.
func startFixtures(t testing.TB, era func(...mcptest.Tool) *mcptest.Upstream) string {
	return era(mcptest.Fixtures(time.Second)...).Start(t)
}

// handle is a task that a client was given, and where.
type handle struct{ endpoint, id string }

// sightings are the last status that clients have seen of each task.
type sightings struct {
	mu     sync.Mutex
	status map[handle]string
}

func (s *sightings) note(t testing.TB, h handle, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.status[h]; ended(was) && status != was {
		t.Errorf("task %s was %s and is %s", h.id, was, status)
	}
	s.status[h] = status
}

func (s *sightings) all() map[handle]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[handle]string{}
	for h, status := range s.status {
		all[h] = status
	}
	return all
}

// work makes tasks and follows them until the gateway is gone.
func (s *sightings) work(ctx context.Context, t testing.TB, c client, random *rand.Rand) {
	for ctx.Err() == nil {
		tool, args := "slow_compute", arguments{"seconds": 0.1 + random.Float64()/2, "label": "crash"}
		if random.IntN(2) == 0 {
			tool, args = "confirm_delete", arguments{"filename": "crash"}
		}
		id, err := c.begin(ctx, tool, args)
		if err != nil {
			return // killed
		}
		h := handle{c.URL, id}
		s.note(t, h, wire.StatusWorking)
		for range random.IntN(10) { // some are left alone, in whatever status
			task, status, err := c.look(ctx, id)
			if err != nil {
				return
			}
			s.note(t, h, status)
			if status == wire.StatusInputRequired {
				_ = c.respond(ctx, id, task, confirmed()) // what comes of it is seen next
			}
		}
	}
}

// check reads every task: each must be known and none may have left a final
// status.
func (s *sightings) check(t *testing.T, c client) {
	t.Helper()
	for h := range s.all() {
		c.URL = h.endpoint
		_, status, err := c.look(t.Context(), h.id)
		if err != nil {
			t.Errorf("task %s: %v", h.id, err)
			continue
		}
		s.note(t, h, status)
	}
}

// finish sees every task to an end: those that wait for an answer get one, and
// of those whose call has died with the gateway none may be working for ever.
func (s *sightings) finish(t *testing.T, c client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for h := range s.all() {
		c.URL = h.endpoint
		Eventually(t, "task "+h.id+" ends", func() bool {
			task, status, err := c.look(ctx, h.id)
			if errors.Is(err, errTooFast) {
				return false
			}
			if err != nil {
				t.Fatalf("task %s: %v", h.id, err)
			}
			s.note(t, h, status)
			if status == wire.StatusInputRequired {
				_ = c.respond(ctx, h.id, task, confirmed()) // the next look tells
			}
			return ended(status)
		})
	}
}

// A restart decides at once what became of each task: nobody polls for ever.
func TestRestartKeepsTasks(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			g := Start(t, Options{Store: store(t), Policy: promoteSoon,
				Config: bothEras(startFixtures(t, mcptest.NewLegacy), startFixtures(t, mcptest.NewModern))})
			legacy, modern := newClient(t, g.Endpoints[0]), newClient(t, g.Endpoints[1])
			finished := legacy.start(t, "slow_compute", arguments{"seconds": 1, "label": "kept"})
			result := legacy.wait(t, finished, wire.StatusCompleted).Get("result")
			running := legacy.start(t, "slow_compute", arguments{"seconds": 600, "label": "lost"})
			parked := modern.start(t, "confirm_delete", arguments{"filename": "a"})
			question := modern.wait(t, parked, wire.StatusInputRequired).Get("inputRequests")

			g.Kill()
			g.Restart(t)

			if got := legacy.wait(t, finished, wire.StatusCompleted).Get("result"); string(got) != string(result) {
				t.Errorf("result after the restart: %s, before: %s", got, result)
			}
			lost := legacy.wait(t, running, wire.StatusFailed)
			checkReason(t, wire.ParseError(lost.Get("error")), "outcome_unknown", false)
			task := modern.wait(t, parked, wire.StatusInputRequired)
			if got := task.Get("inputRequests"); string(got) != string(question) {
				t.Errorf("question after the restart: %s, before: %s", got, question)
			}
			if err := modern.respond(t.Context(), parked, task, confirmed()); err != nil {
				t.Fatal(err)
			}
			modern.wait(t, parked, wire.StatusCompleted)
		})
	}
}
