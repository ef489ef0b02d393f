package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"taskgate/wire"
)

// process is one run of a command, past its initialize.
type process struct {
	opts CommandOptions
	key  sessionKey
	cmd  *exec.Cmd
	init wire.Raw // the InitializeResult

	writing sync.Mutex
	stdin   io.WriteCloser
	sorting sync.Mutex // held while a message is handed on
	current *exchangeOnStdio
	gone    chan struct{} // closed when its output has ended
	tooLong atomic.Bool   // it ended because of a message over the limit

	spent     bool // its last call was cancelled and never answered
	idleSince time.Time
}

// exchangeOnStdio is the request that a process works on.
type exchangeOnStdio struct {
	id      wire.Raw
	receive func(wire.Message)
	reply   chan Reply // capacity 1
}

// startProcess starts the command and opens its one session.
func startProcess(ctx context.Context, o CommandOptions, key sessionKey, capabilities wire.Raw) (*process, error) {
	p := &process{opts: o, key: key, gone: make(chan struct{})}
	if err := p.start(); err != nil {
		return nil, &Error{Kind: Unreachable, Err: fmt.Errorf("start %s: %w", o.Command[0], err)}
	}
	err := within(ctx, o.StartTimeout, "initialize", func(ctx context.Context) error { return p.initialize(ctx, capabilities) })
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// start runs the command in a process group of its own, so that what it has
// started ends with it.
func (p *process) start() error {
	p.cmd = exec.Command(p.opts.Command[0], p.opts.Command[1:]...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = p.opts.CancelTimeout
	p.cmd.Stderr = &lineLogger{log: p.opts.Log, name: p.opts.Name}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go p.read(stdout)
	return nil
}

func (p *process) initialize(ctx context.Context, capabilities wire.Raw) error {
	info := wire.Object{}.With("name", wire.Quote("taskgate")).With("version", wire.Quote(p.opts.Version))
	params := wire.Object{}.With("protocolVersion", wire.Quote(wire.LegacyVersion)).
		With("capabilities", capabilities).With("clientInfo", info.Bytes())
	reply, err := p.exchange(ctx, wire.Message{ID: number(handshakeID), Method: "initialize", Params: params.Bytes()}, func(wire.Message) {})
	if err != nil {
		return unsent(err)
	}
	if reply.Error != nil {
		return &Error{Kind: Incompatible, Err: wire.ParseError(reply.Error)}
	}
	o, err := wire.ParseObject(reply.Result)
	if err != nil {
		return &Error{Kind: Broken, Err: fmt.Errorf("result: %w", err)}
	}
	if v, _ := wire.String(o.Get("protocolVersion")); !knownLegacy(v) {
		return &Error{Kind: Incompatible, Err: fmt.Errorf("the server wants protocol version %.40q", v)}
	}
	p.init = reply.Result
	return p.write(wire.Message{Method: "notifications/initialized"})
}

// unsent tells of a failure before the call itself was sent.
func unsent(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	before := *e
	before.MayHaveRun = false
	return &before
}

// call runs one call to its end. A cancelled one may still answer for a moment:
// after that the process is not used again, because what it sends could be taken
// for part of the next call.
func (p *process) call(ctx context.Context, r Request, h Handler) (Reply, error) {
	callCtx, end := context.WithCancel(ctx)
	c := &conversation{request: r, handler: h, questions: map[string]context.CancelFunc{}}
	reply, err := p.exchange(ctx, wire.Message{ID: number(r.ID), Method: r.Method, Params: r.Params.Bytes()}, func(m wire.Message) {
		p.receive(callCtx, c, m)
	})
	end()
	c.asking.Wait()
	reply.Undeclared = c.undeclared
	return reply, err
}

func (p *process) receive(ctx context.Context, c *conversation, m wire.Message) {
	switch {
	case m.IsRequest():
		ctx, cancel := context.WithCancel(ctx)
		if !c.admit(m.ID, cancel) {
			cancel()
			_ = p.write(wire.Failure(m.ID, wire.Errorf(wire.CodeInternal, "more than %d requests at once", maxQuestions)))
			return
		}
		c.asking.Go(func() {
			defer cancel()
			defer c.dismiss(m.ID)
			answer := c.answer(ctx, m)
			if ctx.Err() == nil {
				_ = p.write(answer) // a process that is gone ends the call
			}
		})
	case m.Method == "notifications/cancelled":
		c.withdraw(m.Params)
	default:
		deliver(c.handler, c.request.ID, m)
	}
}

// exchange sends a request and waits for its response.
func (p *process) exchange(ctx context.Context, m wire.Message, receive func(wire.Message)) (Reply, error) {
	x := &exchangeOnStdio{id: m.ID, receive: receive, reply: make(chan Reply, 1)}
	p.setCurrent(x)
	defer p.setCurrent(nil)
	if err := p.write(m); err != nil {
		return Reply{}, err
	}
	select {
	case reply := <-x.reply:
		return reply, nil
	case <-p.gone:
		return p.lastWord(x)
	case <-ctx.Done():
		p.cancel(m.ID, x)
		return Reply{}, ended(ctx, nil)
	}
}

// setCurrent says whose the messages are. When it returns, none is being handed
// to the exchange before any more.
func (p *process) setCurrent(x *exchangeOnStdio) {
	p.sorting.Lock()
	defer p.sorting.Unlock()
	p.current = x
}

// lastWord is the response of a process that ended right after it.
func (p *process) lastWord(x *exchangeOnStdio) (Reply, error) {
	select {
	case reply := <-x.reply:
		return reply, nil
	default:
	}
	if p.tooLong.Load() {
		return Reply{}, tooLarge(0, int64(p.opts.MaxMessage), int64(p.opts.MaxMessage))
	}
	return Reply{}, broken(0, "the process ended without a response")
}

// cancel tells the process that nobody waits any more.
func (p *process) cancel(id wire.Raw, x *exchangeOnStdio) {
	params := wire.Object{}.With("requestId", id).With("reason", wire.Quote("cancelled by the client"))
	_ = p.write(wire.Message{Method: "notifications/cancelled", Params: params.Bytes()}) // then it is gone
	select {
	case <-x.reply:
	case <-p.gone:
	case <-time.After(p.opts.CancelTimeout):
		p.spent = true
	}
}

// write sends one message, one line.
func (p *process) write(m wire.Message) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	line := append(compact(m.Bytes()), '\n')
	if _, err := p.stdin.Write(line); err != nil {
		return broken(0, "the process takes no input: %w", err)
	}
	return nil
}

// compact takes line breaks out, which JSON has only between tokens.
func compact(b []byte) []byte {
	for i := range b {
		if b[i] == '\n' || b[i] == '\r' {
			b[i] = ' '
		}
	}
	return b
}

// read sorts what the process says until its output ends.
func (p *process) read(stdout io.Reader) {
	defer close(p.gone)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(make([]byte, 0, 64<<10), p.opts.MaxMessage)
	for lines.Scan() {
		m, bad := wire.Decode(slices.Clone(lines.Bytes()))
		if bad != nil {
			p.opts.Log.Debug("upstream wrote a line that is no message", zap.String("upstream", p.opts.Name))
			continue
		}
		p.sort(m)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		p.tooLong.Store(true)
		p.kill(syscall.SIGKILL)
	}
}

// sort hands a message to the exchange that it belongs to; others are dropped.
func (p *process) sort(m wire.Message) {
	p.sorting.Lock()
	defer p.sorting.Unlock()
	x := p.current
	switch {
	case x == nil: // nobody asked
	case !m.IsResponse():
		x.receive(m)
	case string(m.ID) == string(x.id):
		select {
		case x.reply <- Reply{Result: m.Result, Error: m.Error}:
		default:
		}
	}
}

func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// stop ends the process: its input first, which lets it finish, then by signals.
func (p *process) stop() {
	p.stdin.Close()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-p.gone:
		case <-time.After(p.opts.CancelTimeout):
			p.kill(s)
		}
	}
	_ = p.cmd.Wait() // how it ended does not matter any more
}

func (p *process) kill(s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s) // it may be gone
}

// lineLogger puts what a process says on stderr into the log, line by line.
type lineLogger struct {
	log  *zap.Logger
	name string
	rest []byte
}

// maxLogLine bounds a line in the log, in bytes.
const maxLogLine = 1024

func (l *lineLogger) Write(b []byte) (int, error) {
	for _, c := range b {
		if c != '\n' && len(l.rest) < maxLogLine {
			l.rest = append(l.rest, c)
			continue
		}
		if len(l.rest) > 0 {
			l.log.Info("upstream says", zap.String("upstream", l.name), zap.ByteString("stderr", l.rest))
			l.rest = l.rest[:0]
		}
	}
	return len(b), nil
}
