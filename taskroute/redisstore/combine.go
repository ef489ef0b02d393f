package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// maxFlights is how many writers' round trips are on their way at a time. More
	// of them would only wait at the server, which runs one command after the other.
	maxFlights = 2
	// maxAboard bounds the writes of a shared flight: the server lets nobody else
	// in between.
	maxAboard = 32
	// maxShared is how large a document may be, in bytes, that others wait for.
	maxShared = 16 << 10
)

// combiner sends writes. Those that come while maxFlights are on their way go
// together in the next one, which spares both ends calls of the system, wake-ups and
// commands; who comes when there is room waits for nobody.
type combiner struct {
	fly     func(context.Context, []*write) // sends them, and says in each what became of it
	timeout time.Duration

	mu      sync.Mutex
	flights int
	waiting []*flight // all but the last are full
}

// flight is a round trip of several writers.
type flight struct {
	seats  []*write // of one writer each; nil: it has given up
	sent   bool
	landed chan struct{} // closed when all have their replies
}

// send sends w. When ctx is cancelled nothing is sent, or it has been and is waited
// for; when its time is over, it may still be sent, and w is not to be used again. ctx
// has a deadline.
func (c *combiner) send(ctx context.Context, w *write) error {
	f, seat := c.board(w)
	if f == nil {
		defer c.next()
		c.fly(ctx, []*write{w})
		return w.err
	}
	end, _ := ctx.Deadline()
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	select {
	case <-f.landed:
	case <-ctx.Done():
		if c.leave(f, seat) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return ctx.Err()
		}
		<-f.landed
	}
	return w.err
}

// board finds w a seat in a flight that waits; nil: it may go at once.
func (c *combiner) board(w *write) (f *flight, seat int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights < maxFlights {
		c.flights++
		return nil, 0
	}
	if n := len(c.waiting); n == 0 || len(c.waiting[n-1].seats) == maxAboard {
		c.waiting = append(c.waiting, &flight{landed: make(chan struct{})})
	}
	f = c.waiting[len(c.waiting)-1]
	f.seats = append(f.seats, w)
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
	go c.depart(f)
}

// depart sends what is aboard, whoever gives up meanwhile.
func (c *combiner) depart(f *flight) {
	defer c.next()
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	c.fly(ctx, slices.DeleteFunc(f.seats, func(w *write) bool { return w == nil }))
	close(f.landed)
}
