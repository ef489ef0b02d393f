package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"taskgate/wire"
)

// process is a conn: one run of a program, on whose standard streams each line is
// a message (2025-11-25 and 2026-07-28, basic/transports/stdio).
type process struct {
	opts    Options
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  *os.File
	stderr  *lineLogger
	out     chan outbound // to the goroutine that writes
	exited  chan struct{} // closed when the process has ended and nothing of its group is left
	closing sync.Once
	told    chan struct{} // closed when it is told to end
}

// outbound is a line that is to be written.
type outbound struct {
	line []byte
	done chan written // capacity 1
}

// written is how much of a line the program can have read.
type written struct {
	bytes int
	err   error
}

// startProcess starts the program in a process group of its own, so that what it
// starts ends with it. It gets the gateway's environment.
// ended is told when it has ended.
func startProcess(command []string, o Options, ended func(*process)) (*process, error) {
	p := &process{opts: o, out: make(chan outbound), exited: make(chan struct{}), told: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirOut.Close()
	stderr, theirErr, err := os.Pipe()
	if err != nil {
		stdout.Close()
		return nil, err
	}
	defer theirErr.Close()
	p.cmd.Stdout, p.cmd.Stderr = theirOut, theirErr
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		stdout.Close()
		stderr.Close()
		return nil, err
	}
	p.stdout = stdout
	p.stderr = &lineLogger{over: make(chan struct{}), log: o.Log.With(zap.String("upstream", o.Name), zap.Int("pid", p.cmd.Process.Pid))}
	go p.write()
	go p.stderr.read(stderr)
	go p.wait(ended, stdout, stderr)
	return p, nil
}

// wait reaps the process and ends what is left of its group. Somebody who has left
// the group may still hold its output open: that is then closed here.
func (p *process) wait(ended func(*process), streams ...*os.File) {
	_ = p.cmd.Wait() // how it ended is in ProcessState
	p.kill(syscall.SIGKILL)
	p.reapGroup()
	for _, s := range streams {
		_ = s.SetReadDeadline(time.Now().Add(p.opts.CancelTimeout)) // what is in the pipe comes before
	}
	<-p.stderr.over // its fate tells whether it said something
	ended(p)
	close(p.exited)
}

// reapGroup waits for orphans that have become children of this process, as they do
// in a container where it is the first one.
func (p *process) reapGroup() {
	for {
		if _, err := syscall.Wait4(-p.cmd.Process.Pid, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// send implements conn. A line that is being written goes on when ctx ends: half a
// message would spoil the stream for all.
func (p *process) send(ctx context.Context, m wire.Message, _ http.Header) (sent bool, err error) {
	o := outbound{line: append(onOneLine(m.Bytes()), '\n'), done: make(chan written, 1)}
	select {
	case p.out <- o:
	case <-p.exited:
		return false, notSent(p.fate())
	case <-ctx.Done():
		return false, ended(ctx, nil)
	}
	select {
	case w := <-o.done:
		switch {
		case w.err == nil:
			return true, nil
		case w.bytes == 0: // it has ended, though nobody has noticed yet
			return false, notSent(fmt.Errorf("the program takes no input: %w", w.err))
		}
		return true, broken(0, "the program takes no more input: %w", w.err)
	case <-ctx.Done():
		return true, ended(ctx, nil)
	}
}

// write writes line after line, so that a program that does not read holds up only
// those who have something to say to it.
func (p *process) write() {
	for {
		select {
		case o := <-p.out:
			n, err := p.stdin.Write(o.line)
			o.done <- written{n, err}
		case <-p.exited:
			return
		}
	}
}

// onOneLine takes line breaks out, which JSON has only between tokens.
func onOneLine(b []byte) []byte {
	for i := range b {
		if b[i] == '\n' || b[i] == '\r' {
			b[i] = ' '
		}
	}
	return b
}

// read implements conn.
func (p *process) read(f func(wire.Message)) error {
	defer p.stdout.Close()
	lines := bufio.NewReaderSize(p.stdout, 64<<10)
	for {
		line, err := readLine(lines, p.opts.MaxEvent)
		switch {
		case errors.Is(err, errLineTooLong):
			p.end()
			return tooLarge(0, int64(p.opts.MaxEvent), int64(p.opts.MaxEvent))
		case err != nil:
			p.end() // whoever has closed its output is of no use
			return p.fate()
		}
		if m, bad := wire.Decode(line); bad == nil {
			f(m)
		} else if len(line) > 0 {
			p.opts.Log.Debug("upstream wrote a line that is no message", zap.String("upstream", p.opts.Name))
		}
	}
}

var errLineTooLong = errors.New("the line is too long")

// readLine returns a line without its end.
func readLine(r *bufio.Reader, limit int) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit:
			return nil, errLineTooLong
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// fate is how the process ended, for clients too: what it wrote stays in the log.
func (p *process) fate() error {
	text := "the program ended"
	if s := p.cmd.ProcessState; s != nil { // else it could not be waited for
		text += ": " + s.String()
	}
	if p.stderr.said() {
		text += "; what it wrote to stderr is in the gateway's log"
	}
	return errors.New(text)
}

// close implements conn.
func (p *process) close() {
	p.expectEnd()
	p.end()
}

// expectEnd says that the end of the process will be no failure.
func (p *process) expectEnd() { p.closing.Do(func() { close(p.told) }) }

// end ends the program: its input first, which lets it finish; then by signals, to
// its whole group.
func (p *process) end() {
	p.stdin.Close()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-p.exited:
			return
		case <-time.After(p.opts.CancelTimeout):
			p.kill(s)
		}
	}
	<-p.exited
}

func (p *process) kill(s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s) // it may be gone
}

// wasTold tells a process that has ended because it was to.
func (p *process) wasTold() bool {
	select {
	case <-p.told:
		return true
	default:
		return false
	}
}

// lineLogger puts what a process says on stderr into the log, line by line.
type lineLogger struct {
	log  *zap.Logger
	over chan struct{} // closed when there is no more

	mu    sync.Mutex
	lines int
}

// maxLogLine bounds a line in the log, in bytes.
const maxLogLine = 1024

func (l *lineLogger) read(stderr *os.File) {
	defer close(l.over)
	defer stderr.Close()
	lines := bufio.NewReaderSize(stderr, maxLogLine)
	for {
		line, _, err := lines.ReadLine() // a longer line makes several
		if err != nil {
			return
		}
		if len(line) == 0 {
			continue
		}
		l.mu.Lock()
		l.lines++
		l.mu.Unlock()
		l.log.Info("upstream says", zap.String("stderr", string(line)))
	}
}

func (l *lineLogger) said() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines > 0
}
