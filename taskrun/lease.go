package taskrun

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"taskgate/taskroute"
)

// lease is what makes others leave the records of this process alone
// (contract 6). It never changes: a renewed one takes its place.
type lease struct {
	holder string    // the incarnation; a restart is somebody else
	until  time.Time // surely ours before this, by this process's own clock
}

// errLeaseInDoubt: others may think that this replica is dead, and would take
// what it holds for orphans.
var errLeaseInDoubt = errors.New("this replica's lease may be over")

// holder is the present incarnation.
func (r *Runner) holder() string { return r.lease.Load().holder }

// trustedHolder is the present incarnation, for records that it is to hold from
// now on. It fails well before the lease is over, and once it was given back.
func (r *Runner) trustedHolder() (string, error) {
	l := r.lease.Load()
	if closed(r.quit) || !time.Now().Before(l.until) {
		return "", errLeaseInDoubt
	}
	return l.holder, nil
}

// heartbeatOnce renews the lease. Once a lease has lapsed it is gone: this
// replica goes on as a new incarnation, and each of its runs takes its record
// over from the old one, unless somebody else was faster.
func (r *Runner) heartbeatOnce(ctx context.Context) error {
	if closed(r.quit) {
		return nil // the lease was given back
	}
	err := r.beat(ctx, r.holder())
	if !errors.Is(err, taskroute.ErrConflict) {
		return err
	}
	r.metrics.lapses.Inc()
	r.log.Warn("this replica's lease had lapsed; other replicas may have given up calls that run here")
	r.reincarnate()
	if err := r.beat(ctx, r.holder()); err != nil {
		return err
	}
	r.own.Range(func(_, x any) bool { x.(*run).wake(); return true })
	return nil
}

// reincarnate makes this replica somebody new, to whom nothing is attributed
// yet and whom nobody has heard of.
func (r *Runner) reincarnate() { r.lease.Store(&lease{holder: rand.Text()}) }

func (r *Runner) beat(ctx context.Context, holder string) error {
	ctx, cancel := r.briefly(ctx)
	defer cancel()
	asked := time.Now() // wherever the lease is counted, it begins after this
	err := r.store.Heartbeat(ctx, holder, r.opts.Lease)
	if err == nil {
		r.lease.Store(&lease{holder: holder, until: asked.Add(r.opts.Lease - r.opts.Lease/4)})
	}
	return err
}
