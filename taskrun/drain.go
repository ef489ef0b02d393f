package taskrun

import (
	"context"
	"sync"

	"go.uber.org/zap"
)

// Drain waits until no call runs, or until ctx ends. Of what is left then it
// hands over what others can go on with, ends the rest with an honest error, and
// gives the lease back. It is called once. From its beginning no record is taken
// up here any more.
func (r *Runner) Drain(ctx context.Context) error {
	close(r.draining)
	if err := r.coord.Wait(ctx); err != nil {
		r.log.Warn("drain time is over; the calls that still run are handed over, or end as failed", zap.Int("calls", r.coord.Len()))
		r.own.Range(func(_, x any) bool { x.(*run).leave(); return true })
		r.coord.CancelAll(errShutdown)
	}
	ctx = context.WithoutCancel(ctx)
	last, cancel := r.briefly(ctx)
	defer cancel()
	if err := r.busy.wait(last); err != nil {
		r.log.Warn("not every end of a call was recorded in time; other replicas, or the next start, will say that its outcome is unknown")
	}
	close(r.quit)
	ctx, cancel = r.briefly(ctx)
	defer cancel()
	return r.store.Backend().Retire(ctx, r.holder())
}

// group counts what is under way. Unlike a sync.WaitGroup it may be entered
// while somebody waits for it to be empty.
type group struct {
	mu    sync.Mutex
	n     int
	empty chan struct{} // closed when n becomes 0; nil when nobody waits
}

func (g *group) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n++
}

func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// Go runs f as part of the group.
func (g *group) Go(f func()) {
	g.enter()
	go func() {
		defer g.leave()
		f()
	}()
}

// wait returns when the group was empty for a moment, or with the error of ctx.
func (g *group) wait(ctx context.Context) error {
	select {
	case <-g.emptied():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *group) emptied() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	return g.empty
}
