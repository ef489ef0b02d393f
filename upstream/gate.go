package upstream

import (
	"context"
	"fmt"
	"sync"
)

// gate counts what runs, so that closing can refuse the new and wait for the rest.
type gate struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // made by close; closed when the last one leaves
}

func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		return &Error{Kind: Closed, Err: fmt.Errorf("the connector is closed")}
	}
	g.inside++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
	}
}

// close waits until nothing is inside or ctx ends. first is false when somebody
// else has closed the gate before.
func (g *gate) close(ctx context.Context) (first bool, err error) {
	first = g.shut()
	select {
	case <-g.empty:
		return first, nil
	case <-ctx.Done():
		return first, fmt.Errorf("calls are still running: %w", ctx.Err())
	}
}

func (g *gate) shut() (first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		return false
	}
	g.empty = make(chan struct{})
	if g.inside == 0 {
		close(g.empty)
	}
	return true
}
