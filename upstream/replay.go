package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"taskgate/internal/h1"
	"taskgate/wire"
)

// brokeOff tells the end of a stream that can be taken up again. A response
// that could not be read would not come another time.
func (c *conversation) brokeOff(err error) bool {
	return isKind(err, Broken) && !errors.As(err, new(*wire.Error)) && c.found().Event != ""
}

// tellOfPolling tells the caller when the server has ended the call's stream on
// purpose, having said when to come back. Who holds a connection for the caller can
// do the same.
func (c *conversation) tellOfPolling(err error) {
	retry := time.Duration(c.retry.Load())
	if retry > 0 && errors.Is(err, errNoResponse) {
		c.handler.Notify(wire.NotePoll, wire.Object{}.With("retry", number(uint64(retry.Milliseconds()))).Bytes())
	}
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
	s := &sending{endpoint: c.legacy.endpoint}
	s.begin(stream, h1.Request{Method: http.MethodGet, URL: s.endpoint.url, Header: header})
	resp, err := s.response(stream)
	if err != nil {
		p.agreed = stream.Err() != nil && s.sent.Load() // some send no header before there is a first event
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
			if !c.session.claims.has(m.ID, c.request.ID) {
				p.questions = append(p.questions, m)
			}
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
		// A server without sessions begins to count anew with every call.
		if c.session.id != "" && !c.session.claims.free(m.ID, !c.found().Shared) {
			c.legacy.opts.Log.Debug("a question on a stream that was taken up again is left alone: it may be another call's",
				zap.String("upstream", c.legacy.opts.Name), zap.String("method", m.Method))
			continue
		}
		c.session.claims.take(m.ID, c.request.ID)
		c.begin(ctx, m)
	}
	c.seen(p.last)
}
