package legacyfront

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"taskgate/proxy"
	"taskgate/wire"
)

// Call is one request of a session that the modern front answers.
type Call struct {
	f   *Front
	v   *proxy.Visit
	s   *session
	msg wire.Message
	key string // of its leg
	// streams: the client takes a stream of events.
	streams bool
	again   int // how often in a row there was no question

	mu    sync.Mutex // several questions may be out at once
	out   *stream
	round int // of questions
	// polled is closed when the client's connection is to end before the answer,
	// for which the client comes back.
	polled chan struct{}
}

// Reasons to give a call up. To the modern front they are a client that leaves.
var (
	errCancelled = fmt.Errorf("%w: the client has cancelled the request", context.Canceled)
	errEnded     = fmt.Errorf("%w: the client has ended the session", context.Canceled)
)

// call answers a request. It does not end with the connection, only when the
// client says so.
func (f *Front) call(w http.ResponseWriter, req *http.Request, v *proxy.Visit, s *session, msg wire.Message) {
	name := legName(msg.ID)
	c := &Call{f: f, v: v, s: s, msg: msg, key: s.legKey(name), out: f.newStream(w, req, s, name), streams: wire.AcceptsEvents(req.Header), polled: make(chan struct{})}
	answered := make(chan struct{})
	f.running.Go(func() {
		defer close(answered)
		c.run(req.Context())
	})
	select {
	case <-answered:
	case <-c.polled:
	}
}

func (c *Call) run(ctx context.Context) {
	f, s := c.f, c.s
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	go func() {
		if f.await(ctx, c.key, c.refresh(), isCancelled) == nil {
			cancel(errCancelled)
		}
	}()
	go func() {
		if f.await(ctx, s.stateKey(), nil, hasEnded) == nil {
			cancel(errEnded)
		}
	}()
	method := Forward
	if m := f.opts.Extend(s.Version).Methods[c.msg.Method]; m != nil {
		method = m
	}
	c.finish(method(ctx, c))
}

func isCancelled(text []byte) bool {
	l, err := readLeg(text)
	return err == nil && l.Cancelled
}

// refresh returns a function that keeps the note of a running call from
// expiring, when called now and then. That of a replica that died expires, which
// tells who waits for more that there will be none.
func (c *Call) refresh() func() {
	last := time.Now()
	return func() {
		if time.Since(last) < c.f.opts.Kept/2 {
			return
		}
		last = time.Now()
		c.f.refreshLeg(c.out.ctx, c.key)
	}
}

// Forward asks the modern front, and asks the client what the server wants to
// know, until there is an answer.
func Forward(ctx context.Context, c *Call) Answer {
	msg := c.s.modern(wire.Message{ID: c.msg.ID, Method: c.msg.Method, Params: c.Params().Bytes()})
	for {
		t := ask(ctx, c.v, msg, c.relay)
		if wire.ResultType(t.reply.Result) != wire.ResultInputRequired {
			return t.answer()
		}
		result, _ := wire.ParseObject(t.reply.Result) // it has a resultType
		answers, err := c.question(ctx, result)
		if err != nil {
			c.abandon(result)
			return Fail(questionError(err))
		}
		msg = retry(msg, answers, result.Get("requestState"))
	}
}

// retry is the request again, with what the server wanted to know
// (basic/patterns/mrtr).
func retry(msg wire.Message, answers wire.Object, state wire.Raw) wire.Message {
	params, _ := wire.ParseObject(msg.Params) // built by modern
	params = params.Without("inputResponses", "requestState")
	if len(answers) > 0 {
		params = params.With("inputResponses", answers.Bytes())
	}
	if state != nil {
		params = params.With("requestState", state)
	}
	msg.Params = params.Bytes()
	return msg
}

// abandon gives up what waits for answers that will not come.
func (c *Call) abandon(result wire.Object) {
	state, _ := wire.String(result.Get("requestState"))
	ctx, cancel := c.f.briefly(c.out.ctx)
	defer cancel()
	if err := c.v.Abandon(ctx, state); err != nil {
		c.f.opts.Log.Warn("a call was given up, but goes on until its time is over", zap.Error(err))
	}
}
