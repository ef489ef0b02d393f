package upstream

import (
	"context"
	"sync"

	"taskgate/wire"
)

// Resume implements Caller.
func (h *HTTP) Resume(ctx context.Context, kept wire.Raw, r Request, hd Handler) (reply Reply, err error) {
	if err := h.gate.enter(); err != nil {
		return Reply{}, err
	}
	defer h.gate.leave()
	defer func() { h.count(err) }()
	if err := h.needsClient(ctx); err != nil {
		return Reply{}, err
	}
	t, err := parseToken(kept)
	switch {
	case err != nil:
		return Reply{}, broken(0, "%w", err)
	case t.Modern:
		return h.modern.follow(ctx, r, hd, taskState{id: t.Task, status: wire.StatusWorking})
	}
	return h.legacy.resume(ctx, t, r, hd)
}

// resume takes a call of an earlier process up, in the session it began in.
func (l *legacy) resume(ctx context.Context, t token, r Request, h Handler) (Reply, error) {
	s, alone := l.adopted.enter(t)
	defer l.adopted.leave(s)
	t.Shared = t.Shared || !alone
	r.ID = t.Request
	a, err := l.converse(ctx, s, callHeader(r, Legacy), r, h, func(ctx context.Context, c *conversation) (answer, error) {
		c.place = t
		for _, id := range t.Open {
			s.claims.take(id, t.Request)
			c.begin(ctx, wire.Message{ID: id})
		}
		if t.Task != "" {
			return c.followTask(ctx, taskState{id: t.Task, status: wire.StatusWorking})
		}
		if t.Shared {
			wait(ctx, l.opts.Retry) // for the session's other calls to claim what is theirs
		}
		return c.reattach(ctx)
	})
	return a.Reply, err
}

// adopted are the sessions of an earlier process whose calls go on here. No new
// call begins in them, for it might take an id that is in use there; and they
// are never ended, for there may be more calls in them elsewhere.
type adopted struct {
	mu  sync.Mutex
	all map[string]*session // by id
}

func (ad *adopted) enter(t token) (s *session, alone bool) {
	ad.mu.Lock()
	defer ad.mu.Unlock()
	if s = ad.all[t.Session]; s == nil {
		s = &session{id: t.Session, version: t.Version}
		if ad.all == nil {
			ad.all = map[string]*session{}
		}
		ad.all[t.Session] = s
	}
	s.calls++
	s.begun.Add(1)
	return s, s.calls == 1
}

func (ad *adopted) leave(s *session) {
	ad.mu.Lock()
	defer ad.mu.Unlock()
	if s.calls--; s.calls == 0 {
		delete(ad.all, s.id)
	}
}
