package upstream

import (
	"context"
	"sync"

	"taskgate/wire"
)

// Resume implements Caller.
func (h *Connector) Resume(ctx context.Context, kept wire.Raw, r Request, hd Handler) (reply Reply, err error) {
	if err := h.gate.enter(); err != nil {
		return Reply{}, err
	}
	defer h.gate.leave()
	defer func() { h.count(err) }()
	if err := h.needsClient(ctx); err != nil {
		return Reply{}, err
	}
	t, err := parseToken(kept)
	if err != nil {
		return Reply{}, broken(0, "%w", err)
	}
	era := Legacy
	if t.Modern {
		era = Modern
	}
	started(hd)
	return h.dialects[era].resume(ctx, t, r, hd)
}

// resume goes on with the task that the server made.
func (d *modern) resume(ctx context.Context, t token, r Request, h Handler) (Reply, error) {
	return d.follow(ctx, r, h, taskState{id: t.Task, status: wire.StatusWorking})
}

// resume takes a call of an earlier process up, in the session it began in.
func (l *legacy) resume(ctx context.Context, t token, r Request, h Handler) (Reply, error) {
	if l.endpoint == nil {
		return Reply{}, errPassed()
	}
	s, alone := l.adopted.enter(t, l.endpoint)
	defer l.adopted.leave(s)
	t.Shared = t.Shared || !alone
	r.ID = t.Request
	a, err := l.converse(ctx, s, callHeader(r.Header, Legacy), r, h, func(ctx context.Context, c *conversation) (answer, error) {
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

func (ad *adopted) enter(t token, at *endpoint) (s *session, alone bool) {
	ad.mu.Lock()
	defer ad.mu.Unlock()
	if s = ad.all[t.Session]; s == nil {
		s = &session{line: at, id: t.Session, version: t.Version}
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
