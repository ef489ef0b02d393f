package app

import (
	"context"
	"reflect"
	"time"

	"go.uber.org/zap"

	"taskgate/policy"
)

// maxAdvice bounds what is logged for one policy: an upstream could rename its
// tools for ever.
const maxAdvice = 100

// advisor compares the policy with the tools that upstreams turn out to have, as
// `gateway check --upstream` does, and logs each finding once.
type advisor struct {
	set    func() *policy.Set
	listed func() map[string]policy.Upstream
	log    *zap.Logger

	news chan struct{} // capacity 1: an upstream has listed tools

	said map[policy.Finding]bool
	last map[string]policy.Upstream // what was compared
	with *policy.Set                // with which policy
}

func newAdvisor(set func() *policy.Set, listed func() map[string]policy.Upstream, log *zap.Logger) *advisor {
	return &advisor{set: set, listed: listed, log: log, news: make(chan struct{}, 1), said: map[policy.Finding]bool{}}
}

// learned tells that there may be something new. It does not block.
func (a *advisor) learned() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// Run compares whenever there is something new, until ctx ends; its error is nil
// then. A policy that was reloaded is noticed within policyInterval.
func (a *advisor) Run(ctx context.Context) error {
	tick := time.NewTicker(policyInterval)
	defer tick.Stop()
	for {
		select {
		case <-a.news:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		a.runOnce()
	}
}

func (a *advisor) runOnce() {
	set, listed := a.set(), a.listed()
	if set == a.with && reflect.DeepEqual(listed, a.last) {
		return
	}
	if set != a.with {
		clear(a.said)
	}
	a.with, a.last = set, listed
	for _, f := range policy.Check(set, listed) {
		if !a.said[f] && len(a.said) < maxAdvice {
			a.said[f] = true
			a.log.Warn("policy: " + f.String())
		}
	}
}

// listed is what is known of the upstreams. Policy knows the members of an
// aggregate, and not the aggregate.
func (a *App) listed() map[string]policy.Upstream {
	all := map[string]policy.Upstream{}
	for _, u := range a.cfg.Upstreams {
		if len(u.Aggregate) > 0 {
			continue
		}
		known := policy.Upstream{JobPrefix: u.JobPrefix}
		if a.proxy.ListsAll(u.Name) {
			known.Tools = []policy.Tool{}
		}
		all[u.Name] = known
	}
	for _, t := range a.proxy.Tools() {
		if known := all[t.Upstream]; known.Tools != nil {
			known.Tools = append(known.Tools, policy.Tool{Name: t.Name, Annotations: []byte(t.Annotations)})
			all[t.Upstream] = known
		}
	}
	return all
}
