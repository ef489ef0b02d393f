package taskrun

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"taskgate/upstream"
	"taskgate/wire"
)

// scripted is an upstream whose part the test plays: each call stays until the
// test, or its context, ends it.
type scripted struct {
	mu    sync.Mutex
	calls []*played
}

// played is one call at the scripted upstream.
type played struct {
	upstream.Request
	token   string // of a call that was resumed; "" for one that was sent
	t       *testing.T
	ctx     context.Context
	handler upstream.Handler
	end     chan ended
	deaf    chan struct{} // not nil: a cancelled call stays until it is closed
	left    chan struct{} // closed when the call is over
}

// Call implements upstream.Caller.
func (s *scripted) Call(ctx context.Context, r upstream.Request, h upstream.Handler) (upstream.Reply, error) {
	return s.play(ctx, &played{Request: r, handler: h})
}

// Send implements upstream.Caller.
func (s *scripted) Send(ctx context.Context, r upstream.Request, h upstream.Handler) upstream.Pending[upstream.Reply] {
	return upstream.Later(func() (upstream.Reply, error) { return s.Call(ctx, r, h) })
}

func (s *scripted) play(ctx context.Context, p *played) (upstream.Reply, error) {
	if s, ok := p.handler.(upstream.Starter); ok {
		s.Started()
	}
	p.ctx, p.end, p.left = ctx, make(chan ended, 1), make(chan struct{})
	defer close(p.left)
	s.mu.Lock()
	s.calls = append(s.calls, p)
	s.mu.Unlock()
	select {
	case e := <-p.end:
		return e.reply, e.err
	case <-ctx.Done():
		if p.deaf != nil {
			<-p.deaf
		}
		return upstream.Reply{}, fmt.Errorf("upstream call: %w", ctx.Err())
	}
}

// Resume implements upstream.Caller. It is a call like others, with a token.
func (s *scripted) Resume(ctx context.Context, token wire.Raw, r upstream.Request, h upstream.Handler) (upstream.Reply, error) {
	return s.play(ctx, &played{Request: r, token: string(token), handler: h})
}

// Info implements upstream.Caller.
func (s *scripted) Info(context.Context) (upstream.Info, error) { return upstream.Info{}, nil }

// Listen implements upstream.Caller.
func (s *scripted) Listen(context.Context, upstream.ListenRequest) (*upstream.Subscription, error) {
	return nil, &upstream.Error{Kind: upstream.Closed, Err: errors.New("it is not listened to here")}
}

// Close implements upstream.Caller.
func (s *scripted) Close(context.Context) error { return nil }

// count is how many calls have come so far.
func (s *scripted) count() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// nth is the nth call, counted from 1.
func (w *world) nth(n int) *played {
	w.t.Helper()
	if got := w.up.count(); got < n {
		w.t.Fatalf("%d calls reached the upstream, want %d", got, n)
	}
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	p := w.up.calls[n-1]
	p.t = w.t
	return p
}

func reply(result string) upstream.Reply { return upstream.Reply{Result: wire.Raw(result)} }

func (p *played) returns(result string) {
	p.end <- ended{reply: reply(result)}
	synctest.Wait()
}

func (p *played) fails(rpcError string) {
	p.end <- ended{reply: upstream.Reply{Error: wire.Raw(rpcError)}}
	synctest.Wait()
}

// keeps hands out a token.
func (p *played) keeps(token string) {
	p.handler.(upstream.Keeper).Keep(wire.Raw(token))
	synctest.Wait()
}

// cause is why the gateway ended the call; nil while it has not.
func (p *played) cause() error {
	synctest.Wait()
	return context.Cause(p.ctx)
}

// question is one the upstream has asked.
type question struct {
	t        *testing.T
	withdraw context.CancelFunc
	done     chan struct{}
	result   wire.Raw
	err      *wire.Error
}

func (p *played) asks(params string) *question { return p.asksFor(wire.MethodElicit, params) }

func (p *played) asksFor(method, params string) *question {
	return p.asksAs(upstream.Question{Method: method, Params: wire.Raw(params)})
}

func (p *played) asksAs(asked upstream.Question) *question {
	ctx, cancel := context.WithCancel(p.ctx)
	q := &question{t: p.t, withdraw: cancel, done: make(chan struct{})}
	go func() {
		defer close(q.done)
		defer cancel()
		q.result, q.err = p.handler.Ask(ctx, asked)
	}()
	synctest.Wait()
	return q
}

// answer is what the upstream got, "" while it waits.
func (q *question) answer() string {
	synctest.Wait()
	select {
	case <-q.done:
	default:
		return ""
	}
	if q.err != nil {
		return "error: " + q.err.Message
	}
	return string(q.result)
}
