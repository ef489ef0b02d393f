package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"go.uber.org/zap"

	"taskgate/wire"
)

// conn is a two-way connection to a server: the standard streams of a process, or
// HTTP+SSE.
type conn interface {
	// send sends one message, where there are headers with this one. sent is false
	// only when the server cannot have read any of it. When ctx ends first the error
	// wraps ctx.Err(), and what is sent may still be on its way; other errors are
	// *Error.
	send(ctx context.Context, m wire.Message, header http.Header) (sent bool, err error)
	// read hands out what the server sends, until the connection ends. The error is
	// why. It is to be called once.
	read(f func(wire.Message)) error
	// close ends the connection; read then returns.
	close()
}

// channel is a line on which the messages of all calls are mixed. A response is
// its request's by its id, and progress by its token. A request of the server is a
// call's only when no other call can have asked (contract 9).
type channel struct {
	conn    conn
	opts    Options
	running *sync.WaitGroup
	gone    chan struct{} // closed when the connection has ended
	why     error         // set before that

	mu        sync.Mutex
	calls     map[string]*mixedCall // in flight, by id, verbatim
	ghosts    map[string]struct{}   // cancelled calls that were not answered: they may still ask
	questions map[string]*mixedCall // of the server, unanswered, by id; nil: a ping
	ears      map[*ear]func(method string, params wire.Raw)
}

// mixedCall is a request that waits for its response.
type mixedCall struct {
	receive func(wire.Message)
	asks    bool
	reply   chan answer // capacity 1
}

var _ line = (*channel)(nil)

func newChannel(c conn, o Options, running *sync.WaitGroup) *channel {
	ch := &channel{conn: c, opts: o, running: running, gone: make(chan struct{}), calls: map[string]*mixedCall{},
		ghosts: map[string]struct{}{}, questions: map[string]*mixedCall{}, ears: map[*ear]func(string, wire.Raw){}}
	go func() {
		ch.why = c.read(ch.sort)
		close(ch.gone)
	}()
	return ch
}

// errNotSent: the line had ended before the request could be sent.
var errNotSent = errors.New("the connection has ended")

func notSent(why error) *Error {
	return &Error{Kind: Unreachable, Err: fmt.Errorf("%w: %w", errNotSent, why)}
}

// exchange implements line.
func (c *channel) exchange(ctx context.Context, out outgoing, receive func(wire.Message)) underway[answer] {
	return inTurn[answer](func(ctx context.Context) (answer, error) { return c.ask(ctx, out, receive) })
}

func (c *channel) ask(ctx context.Context, out outgoing, receive func(wire.Message)) (answer, error) {
	id := string(out.id)
	call := &mixedCall{receive: receive, asks: asksBack(out.method), reply: make(chan answer, 1)}
	if err := c.enter(id, call); err != nil {
		return answer{}, err
	}
	sent, err := c.conn.send(ctx, out.message(), out.header)
	if err == nil {
		select {
		case a := <-call.reply:
			c.leave(id, call)
			return a, nil
		case <-c.gone:
			return c.lastWord(id, call)
		case <-ctx.Done():
		}
	}
	if sent && ctx.Err() != nil {
		c.haunt(id, call)
		c.abandon(ctx, out)
	}
	c.leave(id, call)
	return answer{}, ended(ctx, err)
}

func (c *channel) enter(id string, call *mixedCall) error {
	if c.ended() {
		return notSent(c.why)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.calls[id]; taken {
		return &Error{Kind: Refused, Err: fmt.Errorf("request %s is under way already", id)}
	}
	c.calls[id] = call
	return nil
}

// leave ends a call. When it returns, nothing is handed to the call any more.
func (c *channel) leave(id string, call *mixedCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
	for q, of := range c.questions {
		if of == call {
			delete(c.questions, q)
		}
	}
}

// haunt makes a call a ghost unless its response has come.
func (c *channel) haunt(id string, call *mixedCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.asks && len(call.reply) == 0 {
		c.ghosts[id] = struct{}{}
	}
}

// haunted tells that a cancelled call may still ask something.
func (c *channel) haunted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ghosts) > 0
}

// lastWord is the response of a server that ended right after it.
func (c *channel) lastWord(id string, call *mixedCall) (answer, error) {
	c.leave(id, call)
	select {
	case a := <-call.reply:
		return a, nil
	default:
	}
	if isKind(c.why, TooLarge) {
		return answer{}, c.why
	}
	return answer{}, broken(0, "no response: %w", c.why)
}

// abandon tells the server that nobody waits any more. The channel stays: others
// use it too.
func (c *channel) abandon(ctx context.Context, out outgoing) {
	if out.abandon != nil {
		out.abandon()
		return
	}
	if c.opts.Cancel != CancelNotify && asksBack(out.method) { // what goes on for ever is ended in any case
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.opts.CancelTimeout)
	defer cancel()
	_ = c.post(ctx, cancelled(out.id), out.header) // it is gone, or hears of it never
}

func cancelled(id wire.Raw) wire.Message {
	params := wire.Object{}.With("requestId", id).With("reason", wire.Quote("nobody waits for the response any more"))
	return wire.Message{Method: "notifications/cancelled", Params: params.Bytes()}
}

// post implements line.
func (c *channel) post(ctx context.Context, m wire.Message, header http.Header) error {
	if m.IsResponse() {
		c.mu.Lock()
		delete(c.questions, string(m.ID))
		c.mu.Unlock()
	}
	_, err := c.conn.send(ctx, m, header)
	return err
}

// overhear implements line.
func (c *channel) overhear(ctx context.Context, e *ear, agreed func()) error {
	c.mu.Lock()
	c.ears[e] = e.hear
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.ears, e)
	}()
	agreed()
	select {
	case <-c.gone:
		return c.why
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hangUp implements line. It returns when nothing of the connection is left.
func (c *channel) hangUp(context.Context, *session) {
	c.conn.close()
	<-c.gone
}

func (c *channel) ended() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// sort hands a message to whom it belongs. It never waits for the server, which
// may be waiting for its output to be read.
func (c *channel) sort(m wire.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.IsResponse():
		delete(c.ghosts, string(m.ID))
		if call := c.calls[string(m.ID)]; call != nil && len(call.reply) == 0 {
			call.reply <- answer{Reply: Reply{Result: m.Result, Error: m.Error}, named: true}
		}
	case m.IsRequest():
		c.sortQuestion(m)
	default:
		c.sortNotification(m)
	}
}

func (c *channel) sortQuestion(m wire.Message) {
	if len(c.questions) >= maxQuestions {
		c.opts.Log.Warn("upstream asks too much at once; a request of it is dropped", zap.String("upstream", c.opts.Name), zap.String("method", m.Method))
		return
	}
	asker := c.asker()
	if m.Method == wire.MethodRoots && c.opts.Isolation == Shared {
		asker = nil // many servers ask for roots once for the whole session, which is not of one caller
	}
	c.questions[string(m.ID)] = asker
	if asker != nil && m.Method != "ping" {
		asker.receive(m)
		return
	}
	answer := wire.Failure(m.ID, wire.Errorf(wire.CodeInvalidRequest, "%.100q cannot be told to be of one call, so it is nobody's to answer", m.Method))
	if m.Method == "ping" {
		answer = wire.Result(m.ID, wire.Raw(`{}`))
	}
	c.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
		defer cancel()
		_ = c.post(ctx, answer, nil) // a server that is gone needs none
	})
}

// asker is the only call that can have asked; nil when it is not certain.
func (c *channel) asker() (only *mixedCall) {
	if len(c.ghosts) > 0 {
		return nil
	}
	for _, call := range c.calls {
		switch {
		case !call.asks:
		case only != nil:
			return nil
		default:
			only = call
		}
	}
	return only
}

// sortNotification: what names its call goes there. Messages for the log are a
// call's while it is the only one that may have caused them. What is said of
// lists and resources is for all.
func (c *channel) sortNotification(m wire.Message) {
	if call := c.calls[addressee(m)]; call != nil {
		call.receive(m)
		return
	}
	if m.Method == "notifications/message" {
		if only := c.asker(); only != nil {
			only.receive(m)
		}
		return
	}
	for _, call := range c.calls {
		call.receive(m)
	}
	for _, hear := range c.ears {
		hear(m.Method, m.Params)
	}
	if m.Method == "notifications/cancelled" {
		params, _ := wire.ParseObject(m.Params)
		delete(c.questions, string(params.Get("requestId")))
	}
}

// addressee is the id of the request that a notification names, verbatim: by its
// progress token, which is the same, or as its subscription.
func addressee(m wire.Message) string {
	params, _ := wire.ParseObject(m.Params)
	if m.Method == "notifications/progress" {
		return string(params.Get(wire.MetaProgressToken))
	}
	meta, _ := params.Object("_meta")
	return string(meta.Get(wire.MetaSubscriptionID))
}
