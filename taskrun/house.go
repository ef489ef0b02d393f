package taskrun

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Run keeps the lease, rescues orphans, collects what has expired and carries
// the store's hints, until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { r.every(ctx, r.opts.Lease/3, r.heartbeatOnce) })
	wg.Go(func() { r.every(ctx, r.opts.Lease/2, r.rescueOnce) })
	wg.Go(func() { r.every(ctx, time.Minute, r.collectOnce) })
	wg.Go(func() { r.hints(ctx) })
	wg.Wait()
	return ctx.Err()
}

// Start takes the first lease: without it this replica's records would be
// taken for orphans.
func (r *Runner) Start(ctx context.Context) error { return r.heartbeatOnce(ctx) }

// every calls once now and then every interval. An error is logged: the next
// turn tries again.
func (r *Runner) every(ctx context.Context, interval time.Duration, once func(context.Context) error) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		if err := once(ctx); err != nil && ctx.Err() == nil {
			r.metrics.housekeeping.Inc()
			r.log.Warn("housekeeping failed; it is tried again", zap.Error(err))
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// hints listens for changes made by other replicas, for ever: without them
// everything still works, later (contract 10).
func (r *Runner) hints(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.store.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		r.log.Warn("store hints broke off; records are read again at intervals until they are back", zap.Error(err))
		select {
		case <-time.After(r.opts.Recheck):
		case <-ctx.Done():
		}
	}
}

func (r *Runner) collectOnce(ctx context.Context) error {
	_, err := r.store.Backend().Collect(ctx, r.opts.Now())
	return err
}

// briefly bounds one use of the store.
func (r *Runner) briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.opts.StoreTimeout)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
