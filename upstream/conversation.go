package upstream

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"taskgate/wire"
)

// conversation is one call in a legacy session. A request that arrives on the
// call's own stream belongs to it and to no other (contract 9).
type conversation struct {
	legacy  *legacy
	session *session
	header  http.Header
	request Request
	handler Handler
	fail    context.CancelCauseFunc // ends the call with an *Error

	streams    sync.WaitGroup // further streams on which the upstream may ask
	asking     sync.WaitGroup // calls of handler.Ask
	mu         sync.Mutex
	questions  map[string]context.CancelFunc // by the upstream's id, verbatim
	undeclared wire.Raw                      // the first that was asked for
	place      token                         // where the call can be found again
	begun      int64                         // session.begun then
	retry      atomic.Int64                  // wire.Event.Retry
}

// maxQuestions limits how many requests of the upstream one call answers at once.
const maxQuestions = 32

// send sends the request and waits for its response, or for the outcome of the
// task that it makes.
func (c *conversation) send(ctx context.Context, asTask bool) (answer, error) {
	params := c.request.Params
	if asTask {
		params = withTask(params)
	}
	a, err := c.session.line.exchange(ctx, outgoing{
		id: number(c.request.ID), method: c.request.Method, params: params,
		header:  ownHeader(c.header),
		abandon: func() { c.abandon(ctx) },
		seen:    c.seen,
	}, func(m wire.Message) { c.receive(ctx, m) }).outcome(ctx)
	c.tellOfPolling(err)
	if c.brokeOff(err) {
		a, err = c.reattach(ctx)
	}
	if err != nil || !asTask {
		return a, err
	}
	if s, ok := createdTask(a.Result); ok {
		return c.followTask(ctx, s)
	}
	return a, nil
}

func (c *conversation) receive(ctx context.Context, m wire.Message) {
	switch {
	case m.IsRequest():
		c.session.claims.take(m.ID, c.request.ID)
		c.begin(ctx, m)
	case m.Method == "notifications/cancelled":
		c.withdraw(m.Params)
	default:
		deliver(c.handler, c.request.ID, m)
	}
}

// deliver hands a notification on. Progress under another token than ours is
// not of this call.
func deliver(h Handler, token uint64, m wire.Message) {
	if m.Method != "notifications/progress" {
		h.Notify(m.Method, m.Params)
		return
	}
	params, err := wire.ParseObject(m.Params)
	if err == nil && string(params.Get(wire.MetaProgressToken)) == string(number(token)) {
		h.Progress(params.Without(wire.MetaProgressToken))
	}
}

// begin answers a request in a goroutine of its own, for it may take as long as
// a person does, and others may come meanwhile. The call waits for the end of
// Ask, but not for an answer that is already on its way.
func (c *conversation) begin(ctx context.Context, m wire.Message) {
	ctx, cancel := context.WithCancel(ctx)
	if !c.admit(m.ID, cancel) {
		defer cancel()
		if c.session.channel == nil { // which has a limit of its own, and may not be waited for
			// Here and now, so that the stream is read no faster than it is refused.
			c.reply(ctx, m.Method, wire.Failure(m.ID, wire.Errorf(wire.CodeInternal, "more than %d requests at once", maxQuestions)))
		}
		return
	}
	c.keep(nil)
	c.asking.Add(1)
	c.legacy.running.Go(func() {
		defer cancel()
		answer := c.answer(ctx, m)
		c.asking.Done()
		if left(ctx) {
			return // the question stays open, for whoever goes on with the call
		}
		c.reply(ctx, m.Method, answer)
		if c.dismiss(m.ID); ctx.Err() == nil {
			c.keep(nil)
		}
	})
}

func (c *conversation) admit(id wire.Raw, cancel context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.questions) >= maxQuestions {
		return false
	}
	c.questions[string(id)] = cancel
	return true
}

func (c *conversation) dismiss(id wire.Raw) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.questions, string(id))
}

func (c *conversation) answer(ctx context.Context, m wire.Message) wire.Message {
	switch m.Method {
	case "ping":
		return wire.Result(m.ID, wire.Raw(`{}`))
	case wire.MethodElicit, wire.MethodSampling, wire.MethodRoots, "":
		if missing := c.request.Capabilities.Answers(m.Method, m.Params); missing != nil && m.Method != "" {
			c.noteUndeclared(missing)
			return wire.Failure(m.ID, undeclared(m.Method, missing))
		}
		result, failure := c.handler.Ask(ctx, Question{ID: string(m.ID), Method: m.Method, Params: m.Params})
		if failure != nil {
			return wire.Failure(m.ID, failure)
		}
		return wire.Result(m.ID, result)
	}
	return wire.Failure(m.ID, wire.Errorf(wire.CodeMethodNotFound, "Method not found: %.100q", m.Method))
}

func (c *conversation) noteUndeclared(missing wire.Raw) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.undeclared == nil {
		c.undeclared = missing
	}
}

// undeclared is the refusal of a request that the caller did not say it can
// answer; for elicitation 2025-11-25 names the code (client/elicitation#error-handling).
func undeclared(method string, missing wire.Raw) *wire.Error {
	code := wire.CodeMethodNotFound
	if method == wire.MethodElicit {
		code = wire.CodeInvalidParams
	}
	return wire.Errorf(code, "The client did not declare the capability %s", missing)
}

// reply POSTs an answer. An answer may be costly, a person's, and the server
// drops a second copy of it, so a failed POST is repeated; when none gets
// through the call would wait forever and is ended.
func (c *conversation) reply(ctx context.Context, method string, answer wire.Message) {
	var err error
	for _, pause := range []time.Duration{0, 250 * time.Millisecond, time.Second} {
		if !wait(ctx, pause) {
			return // the call has ended or the upstream has withdrawn the request
		}
		if err = c.post(ctx, answer); err == nil || ctx.Err() != nil {
			return
		}
	}
	c.legacy.opts.Log.Warn("upstream did not take an answer", zap.String("upstream", c.legacy.opts.Name),
		zap.String("method", method), LogError(err))
	c.fail(broken(0, "the answer to %s could not be delivered: %w", method, err))
}

// answerTimeout limits one POST of an answer.
const answerTimeout = 10 * time.Second

// post goes on when the call ends, which an answer often makes it do before its
// own receipt is there. http.Transport has by then put the connection back for
// others, and to cancel the one request would now and then fail theirs.
func (c *conversation) post(ctx context.Context, answer wire.Message) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	return c.session.line.post(ctx, answer, c.header)
}

// wait returns false when ctx has ended first.
func wait(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// withdraw ends the question that the upstream no longer wants an answer to.
func (c *conversation) withdraw(params wire.Raw) {
	p, err := wire.ParseObject(params)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.questions[string(p.Get("requestId"))]; cancel != nil {
		cancel()
	}
}

// abandon tells the upstream that nobody waits any more, unless the call is left
// to somebody who will.
func (c *conversation) abandon(ctx context.Context) {
	if !left(ctx) || !c.found().findable() {
		c.sendCancelled(ctx)
	}
}

// sendCancelled tells the upstream that the call is over, if it is to be told. It
// does not wait for more than the notification's own receipt: some servers never
// answer a cancelled request.
func (c *conversation) sendCancelled(ctx context.Context) {
	if c.legacy.opts.Cancel != CancelNotify {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.legacy.opts.CancelTimeout)
	defer cancel()
	if err := c.session.line.post(ctx, cancelled(number(c.request.ID)), c.header); err != nil {
		c.legacy.opts.Log.Debug("upstream was not told of a cancellation", zap.String("upstream", c.legacy.opts.Name), LogError(err))
	}
}
