package upstream

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// pool holds one session a key. One with running calls is never closed.
type pool struct {
	opts    Options
	opening *flights[sessionKey, *session]
	// end tells the server that a session is over.
	end func(context.Context, *session)

	mu       sync.Mutex
	sessions map[sessionKey]*session
	reserved int // places of sessions that are being opened
}

// acquire returns the session of the key, opened if need be, with a call more.
// release must follow.
func (p *pool) acquire(ctx context.Context, key sessionKey, header http.Header, open func(context.Context) (*session, error)) (*session, error) {
	for {
		if s := p.take(key, header, credentialsOf(ctx)); s != nil {
			return s, nil
		}
		_, err := p.opening.do(ctx, key, func(ctx context.Context) (*session, error) { return p.open(ctx, key, open) })
		if err != nil {
			return nil, err
		}
	}
}

func (p *pool) take(key sessionKey, header http.Header, client *Credentials) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[key]
	if s != nil {
		s.calls++
		s.begun.Add(1)
		s.header, s.client = header, client
	}
	return s
}

func (p *pool) open(ctx context.Context, key sessionKey, open func(context.Context) (*session, error)) (*session, error) {
	victim, err := p.reserve()
	if err != nil {
		return nil, err
	}
	defer p.unreserve()
	if victim != nil {
		p.end(ctx, victim)
	}
	s, err := open(ctx)
	if err != nil {
		return nil, err
	}
	s.key = key
	p.put(s)
	return s, nil
}

// reserve makes sure that a session more is within the limit; the one that has
// been idle for longest may have to go.
func (p *pool) reserve() (victim *session, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sessions)+p.reserved >= p.opts.MaxSessions {
		if victim = p.oldestIdle(); victim == nil {
			return nil, &Error{Kind: Full, Err: fmt.Errorf("all %d sessions that are allowed are in use", p.opts.MaxSessions)}
		}
		delete(p.sessions, victim.key)
	}
	p.reserved++
	return victim, nil
}

func (p *pool) oldestIdle() (oldest *session) {
	for _, s := range p.sessions {
		if s.calls == 0 && (oldest == nil || s.idleSince.Before(oldest.idleSince)) {
			oldest = s
		}
	}
	return oldest
}

func (p *pool) unreserve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved--
}

func (p *pool) put(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.idleSince = p.opts.Now()
	p.sessions[s.key] = s
}

func (p *pool) release(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.calls--
	s.idleSince = p.opts.Now()
}

// drop forgets a session that the server does not know any more.
func (p *pool) drop(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions[s.key] == s {
		delete(p.sessions, s.key)
	}
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sessions)
}

// endIdle ends the sessions that have had no call since before.
func (p *pool) endIdle(ctx context.Context, before time.Time) {
	sem := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for _, s := range p.takeIdle(before) {
		sem <- struct{}{}
		wg.Go(func() {
			p.end(ctx, s)
			<-sem
		})
	}
	wg.Wait()
}

func (p *pool) takeIdle(before time.Time) []*session {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := slices.Collect(maps.Values(p.sessions))
	idle = slices.DeleteFunc(idle, func(s *session) bool { return s.calls > 0 || !s.idleSince.Before(before) })
	for _, s := range idle {
		delete(p.sessions, s.key)
	}
	return idle
}
