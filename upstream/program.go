package upstream

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// program starts the processes of a command. One that keeps ending by itself is
// started again after longer and longer pauses.
type program struct {
	command []string
	opts    Options
	metrics *metrics

	mu        sync.Mutex
	failures  int // in a row
	last      error
	notBefore time.Time
}

// start starts a process. Errors are *Error.
func (g *program) start() (*process, error) {
	if err := g.allowed(); err != nil {
		return nil, err
	}
	began := g.opts.Now()
	p, err := startProcess(g.command, g.opts, func(p *process) {
		if !p.wasTold() {
			g.failed(p.fate(), g.opts.Now().Sub(began))
		}
	})
	if err != nil {
		err = fmt.Errorf("start %s: %w", g.command[0], err)
		g.failed(err, 0)
		return nil, &Error{Kind: Unreachable, Err: err}
	}
	return p, nil
}

// allowed is an error while it is too early for another start.
func (g *program) allowed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	wait := g.notBefore.Sub(g.opts.Now())
	if wait <= 0 {
		return nil
	}
	return &Error{Kind: Unreachable, Err: fmt.Errorf("%w; that was the %d. time in a row, it is not started again for %v",
		g.last, g.failures, wait.Round(time.Second))}
}

// failed notes the end of a process that was not told to, after it has lived for
// lived. After the first one the next may start at once.
func (g *program) failed(why error, lived time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if lived > maxPauses*g.opts.Retry {
		g.failures = 0
	}
	g.failures++
	g.last = why
	g.notBefore = g.opts.Now().Add(g.pause())
	g.metrics.ended.Inc()
	g.opts.Log.Warn("upstream's program has ended by itself", zap.String("upstream", g.opts.Name), zap.Error(why),
		zap.Int("inARow", g.failures), zap.Duration("pause", g.pause()))
}

// maxPauses is the longest pause, in units of Options.Retry.
const maxPauses = 30

func (g *program) pause() time.Duration {
	if g.failures < 2 {
		return 0
	}
	return min(g.opts.Retry<<min(g.failures-2, 8), maxPauses*g.opts.Retry)
}

// trouble is why the program cannot be relied on; nil while it can.
func (g *program) trouble() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures < 2 || g.opts.Now().Sub(g.notBefore) > maxPauses*g.opts.Retry {
		return nil
	}
	return fmt.Errorf("%w, %d times in a row", g.last, g.failures)
}
