package faults

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"taskgate/internal/mcptest"
)

// fault does harm and takes it back before it returns.
type fault struct {
	name   string
	weight int
	strike func(t *testing.T, f *fleet, random *rand.Rand)
}

var kinds = []fault{
	{"gateway killed", 4, func(t *testing.T, f *fleet, random *rand.Rand) {
		r := f.any(random)
		r.Kill()
		wait(random, 0, lease)
		r.Restart(t)
	}},
	{"gateway frozen beyond its lease", 3, func(t *testing.T, f *fleet, random *rand.Rand) {
		r := f.any(random)
		signal(t, r, syscall.SIGSTOP)
		wait(random, lease, 2*lease)
		signal(t, r, syscall.SIGCONT)
	}},
	{"gateway rolled", 3, func(t *testing.T, f *fleet, random *rand.Rand) {
		r := f.any(random)
		if code := r.Terminate(t); code != 0 {
			t.Errorf("a gateway that was asked to end ended with %d", code)
		}
		r.Restart(t)
	}},
	{"gateway's connections to redis cut", 4, func(_ *testing.T, f *fleet, random *rand.Rand) { f.any(random).toRedis.Cut() }},
	{"gateway without replies of redis", 3, func(_ *testing.T, f *fleet, random *rand.Rand) {
		f.broken(random, (*mcptest.Cutter).BeforeReply, lease)
	}},
	{"gateway's replies of redis cut short", 3, func(_ *testing.T, f *fleet, random *rand.Rand) {
		f.broken(random, func(c *mcptest.Cutter) { c.DropAfter(random.IntN(2000)) }, lease)
	}},
	{"gateway parted from redis", 3, func(_ *testing.T, f *fleet, random *rand.Rand) {
		f.broken(random, (*mcptest.Cutter).Pause, 2*lease)
	}},
	{"redis killed", 2, func(t *testing.T, f *fleet, random *rand.Rand) {
		f.outage(func() {
			f.redis.Kill(t)
			wait(random, 0, time.Second)
			f.redis.Restart(t)
		})
	}},
	{"redis frozen", 2, func(t *testing.T, f *fleet, _ *rand.Rand) {
		f.outage(func() {
			f.redis.Signal(t, syscall.SIGSTOP)
			<-time.After(3 * time.Second)
			f.redis.Signal(t, syscall.SIGCONT)
		})
	}},
	{"pub/sub killed", 3, func(t *testing.T, f *fleet, _ *rand.Rand) { f.redis.CLI(t, "client", "kill", "type", "pubsub") }},
	{"scripts forgotten", 2, func(t *testing.T, f *fleet, _ *rand.Rand) { f.redis.CLI(t, "script", "flush") }},
	{"upstream restarted", 2, func(t *testing.T, f *fleet, random *rand.Rand) {
		f.upstreams[random.IntN(len(f.upstreams))].restart(t)
	}},
	{"upstream's streams cut", 2, func(_ *testing.T, f *fleet, random *rand.Rand) {
		f.upstreams[random.IntN(len(f.upstreams))].live.CutStreams()
	}},
}

func (f *fleet) any(random *rand.Rand) *replica { return f.replicas[random.IntN(len(f.replicas))] }

// broken spoils the way to Redis of one replica for a while.
func (f *fleet) broken(random *rand.Rand, spoil func(*mcptest.Cutter), longest time.Duration) {
	c := f.any(random).toRedis
	spoil(c)
	wait(random, 0, longest)
	c.Heal()
}

func signal(t *testing.T, r *replica, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(r.PID(), sig); err != nil {
		t.Fatalf("signal a gateway: %v", err)
	}
}

func wait(random *rand.Rand, least, most time.Duration) {
	<-time.After(least + time.Duration(random.Int64N(int64(most-least))))
}

// choose takes a fault by the weights.
func choose(random *rand.Rand) fault {
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	n := random.IntN(sum)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			return k
		}
	}
	panic("weights do not add up")
}
