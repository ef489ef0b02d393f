package upstream

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// pool holds the open sessions. One with running calls is never closed.
type pool struct {
	opts    Options
	running *sync.WaitGroup
	opening *flights[sessionKey, *session]

	mu       sync.Mutex
	sessions map[sessionKey][]*session
	reserved int           // places of sessions that are being opened
	freed    chan struct{} // closed and replaced when a call has left a session
}

func newPool(o Options, running *sync.WaitGroup) *pool {
	return &pool{opts: o, running: running, opening: newFlights[sessionKey, *session](running),
		sessions: map[sessionKey][]*session{}, freed: make(chan struct{})}
}

// acquire returns a session of the key that can take the request, opened if need
// be, with a call more. release must follow. When all places are taken, it waits
// for one for as long as Options.Patience.
func (p *pool) acquire(ctx context.Context, key sessionKey, r Request, header http.Header, open func(context.Context) (*session, error)) (*session, error) {
	patience := time.NewTimer(p.opts.Patience)
	defer patience.Stop()
	for {
		freed := p.nextFreed()
		if s := p.take(key, r.mayAsk(), header, credentialsOf(ctx)); s != nil {
			return s, nil
		}
		_, err := p.opening.do(ctx, key, func(ctx context.Context) (*session, error) { return p.open(ctx, key, open) })
		switch {
		case err == nil:
			continue
		case !isKind(err, Full) || p.opts.Patience == 0:
			return nil, err
		}
		select {
		case <-freed:
		case <-patience.C:
			return nil, err
		case <-ctx.Done():
			return nil, ended(ctx, nil)
		}
	}
}

func (p *pool) nextFreed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.freed
}

func (p *pool) take(key sessionKey, asks bool, header http.Header, client *Credentials) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(key, (*session).ended)
	for _, s := range p.sessions[key] {
		if s.takes(asks) {
			s.calls++
			s.begun.Add(1)
			if asks {
				s.asking++
			}
			s.header, s.client = header, client
			return s
		}
	}
	return nil
}

// forget takes sessions of a key out that are good for nothing any more.
func (p *pool) forget(key sessionKey, bad func(*session) bool) {
	if p.sessions[key] = slices.DeleteFunc(p.sessions[key], bad); len(p.sessions[key]) == 0 {
		delete(p.sessions, key)
	}
}

func (p *pool) open(ctx context.Context, key sessionKey, open func(context.Context) (*session, error)) (*session, error) {
	victim, err := p.reserve()
	if err != nil {
		return nil, err
	}
	defer p.unreserve()
	if victim != nil {
		victim.line.hangUp(ctx, victim)
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
	if p.count()+p.reserved >= p.opts.MaxSessions {
		if victim = p.oldestIdle(); victim == nil {
			return nil, &Error{Kind: Full, Err: fmt.Errorf("all %d sessions that are allowed are in use", p.opts.MaxSessions)}
		}
		p.forget(victim.key, func(s *session) bool { return s == victim })
	}
	p.reserved++
	return victim, nil
}

func (p *pool) oldestIdle() (oldest *session) {
	for _, list := range p.sessions {
		for _, s := range list {
			if s.calls == 0 && (oldest == nil || s.idleSince.Before(oldest.idleSince)) {
				oldest = s
			}
		}
	}
	return oldest
}

func (p *pool) unreserve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved--
	p.tell()
}

func (p *pool) put(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.idleSince = p.opts.Now()
	p.sessions[s.key] = append(p.sessions[s.key], s)
}

// release takes the call out that acquire has put in. A session that was of that
// call alone ends, and so does one that is retired when its last call leaves.
func (p *pool) release(s *session, r Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.calls--
	if r.mayAsk() {
		s.asking--
	}
	s.idleSince = p.opts.Now()
	if (s.key.call != 0 || s.retired && s.calls == 0) && p.has(s) {
		p.forget(s.key, func(t *session) bool { return t == s })
		p.running.Go(func() { s.line.hangUp(context.Background(), s) })
	}
	p.tell()
}

// retire lets no more calls into the session of a call that was cancelled, where
// that is how a server learns of it.
func (p *pool) retire(ctx context.Context, s *session) {
	if p.opts.Cancel != CancelClose || ctx.Err() == nil || left(ctx) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.retired = true
}

func (p *pool) has(s *session) bool { return slices.Contains(p.sessions[s.key], s) }

func (p *pool) tell() {
	close(p.freed)
	p.freed = make(chan struct{})
}

// drop forgets a session that the server does not know any more.
func (p *pool) drop(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(s.key, func(t *session) bool { return t == s })
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count()
}

func (p *pool) count() (n int) {
	for _, list := range p.sessions {
		n += len(list)
	}
	return n
}

// anyChannel is an open session of an era whose line is a channel; nil: there is
// none.
func (p *pool) anyChannel(era Era) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, list := range p.sessions {
		for _, s := range list {
			if key.era == era && s.channel != nil && !s.ended() {
				return s
			}
		}
	}
	return nil
}

// end ends sessions, several at once.
func (p *pool) end(ctx context.Context, sessions []*session) {
	sem := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for _, s := range sessions {
		sem <- struct{}{}
		wg.Go(func() {
			s.line.hangUp(ctx, s)
			<-sem
		})
	}
	wg.Wait()
}

// endIdle ends the sessions that have had no call since before.
func (p *pool) endIdle(ctx context.Context, before time.Time) {
	p.end(ctx, p.remove(func(s *session) bool { return s.calls == 0 && s.idleSince.Before(before) }))
}

// endChannels ends the sessions that cannot outlive the gateway, whatever runs.
func (p *pool) endChannels(ctx context.Context) {
	p.end(ctx, p.remove(func(s *session) bool { return s.channel != nil }))
}

func (p *pool) remove(which func(*session) bool) (removed []*session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.sessions {
		p.forget(key, func(s *session) bool {
			if which(s) {
				removed = append(removed, s)
			}
			return which(s)
		})
	}
	return removed
}
