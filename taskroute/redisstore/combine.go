package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxFlights is how many pipelines of writers are on their way at a time. More
	// of them would only wait at the server, which runs one command after the other.
	maxFlights = 4
	// maxAboard bounds the commands of a shared flight: the server lets nobody else
	// in between.
	maxAboard = 96
	// maxShared is how large a document may be, in bytes, that others wait for.
	maxShared = 16 << 10
)

// combiner sends the pipelines of writers. Those that come while maxFlights are on
// their way go together in the next one, which spares both ends calls of the
// system and wake-ups; who comes when there is room waits for nobody.
type combiner struct {
	client  redis.UniversalClient
	timeout time.Duration

	mu      sync.Mutex
	flights int
	waiting []*flight // all but the last are full
}

// flight is a pipeline of several writers.
type flight struct {
	seats  [][]redis.Cmder // those of one writer each; nil: it has given up
	aboard int             // commands
	sent   bool
	landed chan struct{} // closed when the commands have their replies
	err    error
}

// send sends p. When ctx is cancelled nothing is sent, or it has been and is waited
// for; when its time is over, it may still be sent.
func (c *combiner) send(ctx context.Context, p redis.Pipeliner) error {
	cmds := p.Cmds()
	f, seat := c.board(cmds)
	if f == nil {
		defer c.next()
		return exec(ctx, p)
	}
	select {
	case <-f.landed:
	case <-ctx.Done():
		if c.leave(f, seat) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return ctx.Err()
		}
		<-f.landed
	}
	return outcome(cmds, f.err)
}

// board finds the commands a seat in a flight that waits; nil: they may go at once.
func (c *combiner) board(cmds []redis.Cmder) (f *flight, seat int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights < maxFlights {
		c.flights++
		return nil, 0
	}
	if n := len(c.waiting); n == 0 || c.waiting[n-1].aboard+len(cmds) > maxAboard {
		c.waiting = append(c.waiting, &flight{landed: make(chan struct{})})
	}
	f = c.waiting[len(c.waiting)-1]
	f.seats, f.aboard = append(f.seats, cmds), f.aboard+len(cmds)
	return f, len(f.seats) - 1
}

// leave gives the seat up, if nothing was sent yet.
func (c *combiner) leave(f *flight, seat int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !f.sent {
		f.seats[seat] = nil
	}
	return !f.sent
}

// next lets the flight that has waited longest take the place of one that has landed.
func (c *combiner) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.flights--
		return
	}
	f := c.waiting[0]
	c.waiting, f.sent = c.waiting[1:], true
	go c.fly(f)
}

// fly sends what all of them have written, whoever gives up meanwhile.
func (c *combiner) fly(f *flight) {
	defer c.next()
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	p := c.client.Pipeline()
	for _, cmds := range f.seats {
		_ = p.BatchProcess(ctx, cmds...) // puts them there, no more
	}
	f.err = exec(ctx, p)
	close(f.landed)
}

func exec(ctx context.Context, p redis.Pipeliner) error {
	cmds, err := p.Exec(ctx)
	return outcome(cmds, err)
}

// outcome is what became of some commands of a pipeline that has ended with err:
// what the server says to those of another is none of theirs.
func outcome(cmds []redis.Cmder, err error) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	if reply := redis.Error(nil); errors.As(err, &reply) {
		return nil
	}
	return err
}
