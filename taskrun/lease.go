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
	holder  string    // the incarnation; a restart is somebody else
	renewed time.Time // by this process's own clock, before the store was asked; zero: never
	late    time.Time // when a renewal last came late, or anew; zero: never
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
	if closed(r.quit) || time.Since(l.renewed) >= r.opts.Lease*3/4 {
		return "", errLeaseInDoubt
	}
	return l.holder, nil
}

// isCalm tells that the leases of others can be judged. When the store was away
// for so long that leases have lapsed, it was for this replica too, which knows by
// its own renewals: then everybody who is alive is given a lease's time to renew.
func (r *Runner) isCalm() bool {
	l := r.lease.Load()
	return time.Since(l.renewed) < r.opts.Lease*3/5 && time.Since(l.late) >= r.opts.Lease
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
	r.lease.Store(&lease{holder: rand.Text(), late: time.Now()})
	return r.beat(ctx, r.holder())
}

func (r *Runner) beat(ctx context.Context, holder string) error {
	ctx, cancel := r.briefly(ctx)
	defer cancel()
	asked := time.Now() // wherever the lease is counted, it begins after this
	err := r.store.Heartbeat(ctx, holder, r.opts.Lease)
	if err != nil {
		return err
	}
	before := r.lease.Load()
	l := lease{holder: holder, renewed: asked, late: before.late}
	isNew := before.renewed.IsZero()
	if !isNew && time.Since(before.renewed) >= r.opts.Lease*3/5 {
		l.late = time.Now()
	}
	r.lease.Store(&l)
	if isNew {
		r.own.Range(func(_, x any) bool { x.(*run).wake(); return true })
	}
	return nil
}
