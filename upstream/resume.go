package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

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
			s.claims.take(id, c)
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

// brokeOff tells the end of a stream that can be taken up again. A response
// that could not be read would not come another time.
func (c *conversation) brokeOff(err error) bool {
	return isKind(err, Broken) && !errors.As(err, new(*wire.Error)) && c.found().Event != ""
}

// reattach goes on reading what the call's stream has to say until the response
// is there (2025-11-25, basic/transports#resumability-and-redelivery). It asks
// again and again: some servers tell what was missed and then nothing more.
func (c *conversation) reattach(ctx context.Context) (answer, error) {
	abandon := sync.OnceFunc(func() { c.abandon(ctx) })
	defer c.legacy.endpoint.after(ctx, abandon)()
	retry := c.legacy.opts.Retry
	quiet, reached := retry, time.Now()
	for {
		if !wait(ctx, c.pause()) {
			abandon()
			return answer{}, ended(ctx, nil)
		}
		p := &replay{conversation: c}
		err := p.read(ctx, quiet)
		switch {
		case ctx.Err() != nil:
			continue
		case isKind(err, TooLarge):
			abandon()
			return answer{}, err
		case p.answer.named:
			return p.answer, nil
		case errors.As(err, new(gone)), errors.As(err, new(*wire.Error)):
			return answer{}, broken(0, "the call's stream cannot be taken up again: %w", err)
		case p.agreed:
			reached = time.Now()
		case time.Since(reached) > patience*retry:
			return answer{}, broken(0, "the call's stream could not be taken up again: %w", err)
		}
		if quiet = min(2*quiet, 15*retry); p.news {
			quiet = retry
		}
	}
}

// pause is how long the server wants to be left alone before each look.
func (c *conversation) pause() time.Duration {
	least := c.legacy.opts.Retry / 4
	return max(least, time.Duration(c.retry.Load()))
}

// replay is one look at a call's stream.
type replay struct {
	conversation *conversation
	questions    []wire.Message // that nobody has claimed yet
	last         wire.Event     // since the first of them

	agreed bool // the server has sent the stream
	news   bool // there was something on it
	answer answer
}

// read reads until the response comes, the stream ends, or there is nothing
// new for quiet.
func (p *replay) read(ctx context.Context, quiet time.Duration) error {
	c := p.conversation
	stream, closeStream := context.WithCancel(ctx)
	defer closeStream()
	silence := time.AfterFunc(max(quiet, headerPatience), closeStream)
	defer silence.Stop()
	header := http.Header{}
	copyHeader(header, c.header)
	header.Set(wire.HeaderLastEvent, c.found().Event)
	var sent atomic.Bool
	resp, err := c.legacy.endpoint.do(stream, http.MethodGet, nil, header, &sent)
	if err != nil {
		p.agreed = stream.Err() != nil && sent.Load() // some send no header before there is a first event
		return err
	}
	defer resp.Body.Close()
	if err := refusesReplay(resp); err != nil {
		return err
	}
	p.agreed = true
	silence.Reset(quiet)
	err = c.legacy.endpoint.events(resp, func(ev wire.Event) error {
		silence.Reset(c.legacy.opts.Retry)
		return p.take(ctx, ev)
	})
	if !p.answer.named {
		p.claim(ctx)
	}
	return err
}

// refusesReplay is why there is nothing to read; gone when there never will be.
func refusesReplay(resp *http.Response) error {
	err := notOK(resp)
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented:
		return gone{err}
	}
	if err == nil && !isEventStream(resp) {
		return gone{fmt.Errorf("HTTP %d without a stream", resp.StatusCode)}
	}
	return err
}

func (p *replay) take(ctx context.Context, ev wire.Event) error {
	p.news = true
	c := p.conversation
	for m, bad := range messages(ev) {
		mine := string(m.ID) == string(number(c.request.ID))
		switch {
		case bad != nil && mine:
			return broken(0, "the response cannot be read: %w", bad)
		case bad != nil: // passed over
		case m.IsResponse() && mine:
			p.answer = answer{Reply: Reply{Result: m.Result, Error: m.Error}, named: true}
			return wire.ErrStop
		case m.IsResponse(), foreignProgress(m, c.request.ID):
			c.session.claims.mix()
		case m.Method == "ping":
			c.begin(ctx, m)
		case m.IsRequest():
			p.questions = append(p.questions, m)
		case m.Method == "notifications/cancelled":
			p.withdraw(m.Params)
			c.withdraw(m.Params)
		default:
			deliver(c.handler, c.request.ID, m)
		}
	}
	if len(p.questions) == 0 {
		c.seen(ev)
	} else {
		p.last = ev
	}
	return nil
}

func foreignProgress(m wire.Message, token uint64) bool {
	if m.Method != "notifications/progress" {
		return false
	}
	params, _ := wire.ParseObject(m.Params)
	return string(params.Get(wire.MetaProgressToken)) != string(number(token))
}

// withdraw forgets a question that was taken back before it was claimed.
func (p *replay) withdraw(params wire.Raw) {
	o, _ := wire.ParseObject(params)
	id := string(o.Get("requestId"))
	p.questions = slices.DeleteFunc(p.questions, func(m wire.Message) bool { return string(m.ID) == id })
}

// claim asks the questions that are new and this call's own. By now it shows
// whether the server mixes streams.
func (p *replay) claim(ctx context.Context) {
	c := p.conversation
	c.keep(nil) // it may be shared by now
	for _, m := range p.questions {
		if c.session.claims.tryTake(m.ID, c, !c.found().Shared) {
			c.begin(ctx, m)
		} else {
			c.legacy.opts.Log.Debug("a question on a stream that was taken up again is left alone: it may be another call's",
				zap.String("upstream", c.legacy.opts.Name), zap.String("method", m.Method))
		}
	}
	c.seen(p.last)
}
