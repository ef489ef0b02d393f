package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"taskgate/wire"
)

// audiences are the open streams of one upstream on which it speaks on its own
// account, each shared by all who may share a session.
type audiences struct {
	opts    Options
	metrics *metrics
	running *sync.WaitGroup

	mu     sync.Mutex
	all    map[sessionKey]*audience
	closed bool
}

// join adds a listener. It waits until the upstream has acknowledged or could
// not be reached, or ctx ends.
func (as *audiences) join(ctx context.Context, key sessionKey, r ListenRequest, open source) (*Subscription, error) {
	s, err := as.enter(ctx, key, r, open)
	if err != nil {
		return nil, err
	}
	for {
		news := s.audience.outlook(s, r.Assume, ctx.Err() != nil)
		if news == nil {
			return s, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
}

// outlook is nil once it is settled what s hears, else what to wait for. When
// the upstream does not say in time, assume settles it.
func (a *audience) outlook(s *Subscription, assume wire.Filter, late bool) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !s.acknowledged && (late || a.broken > s.broken) {
		s.settle(assume)
		s.missed = true
	}
	if s.acknowledged {
		return nil
	}
	return a.news
}

func (as *audiences) enter(ctx context.Context, key sessionKey, r ListenRequest, open source) (*Subscription, error) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.closed {
		return nil, &Error{Kind: Closed, Err: errors.New("the connector is closed")}
	}
	a := as.all[key]
	if a == nil {
		// A legacy stream keeps a session in use, of which calls need some too.
		if limit := max(as.opts.MaxSessions/2, 1); len(as.all) >= limit {
			return nil, &Error{Kind: Full, Err: fmt.Errorf("all %d streams that are allowed are in use", limit)}
		}
		a = as.start(ctx, key, open)
	}
	s := &Subscription{audience: a, want: r.Want.WithoutTasks(), changed: make(chan struct{}, 1), room: r.Room,
		client: credentialsOf(ctx), broken: a.broken}
	a.listeners[s] = struct{}{}
	a.ask()
	a.acknowledge()
	return s, nil
}

// start runs the stream of a new audience. It outlives the request that began
// it.
func (as *audiences) start(ctx context.Context, key sessionKey, open source) *audience {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &audience{
		audiences: as, key: key, end: cancel, news: make(chan struct{}),
		listeners: map[*Subscription]struct{}{}, wants: make(chan wire.Filter, 1),
	}
	as.all[key] = a
	as.running.Go(func() { a.run(ctx, open) })
	return a
}

// close ends all streams. Their listeners hear nothing more.
func (as *audiences) close() {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.closed = true
	for _, a := range as.all {
		a.end()
	}
	clear(as.all)
}

func (as *audiences) size() int {
	as.mu.Lock()
	defer as.mu.Unlock()
	return len(as.all)
}
