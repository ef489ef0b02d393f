package e2e

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long the tests wait for what must happen. It is long because
// a loaded machine is slow, and costs nothing when all is well.
const patience = 60 * time.Second

// Process is a started program whose output is kept.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended

	mu    sync.Mutex
	lines []string
}

// StartProcess starts a program. At the end of the test it is killed, and its
// output is shown when the test has failed. A data race that it reports fails
// the test.
func StartProcess(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{name: cmd.Path, cmd: cmd, done: make(chan struct{})}
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	cmd.WaitDelay = 5 * time.Second // a child of its own may keep the pipe open
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.collect(out)
	}()
	go func() {
		cmd.Wait() // the code is read from ProcessState
		w.Close()
		<-read
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if strings.Contains(p.Output(), "WARNING: DATA RACE") {
			t.Errorf("%s has a data race", p.name)
		}
		if t.Failed() {
			t.Logf("output of %s (pid %d):\n%s", p.name, p.cmd.Process.Pid, p.Output())
		}
	})
	return p
}

func (p *Process) collect(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			p.mu.Lock()
			p.lines = append(p.lines, strings.TrimRight(line, "\n"))
			p.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// Lines is what the program has written so far, standard output and standard
// error together.
func (p *Process) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// Output is Lines as one text.
func (p *Process) Output() string { return strings.Join(p.Lines(), "\n") }

// Alive tells whether the program still runs.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// PID is the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the program as a crash would, with SIGKILL, and waits for its end.
func (p *Process) Kill() {
	p.cmd.Process.Kill() // an error says that it has ended already
	<-p.done
}

// Terminate asks the program to end with SIGTERM and returns its exit code.
func (p *Process) Terminate(t testing.TB) int {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM) // an error says that it has ended already
	return p.Wait(t)
}

// Wait waits for the end of the program and returns its exit code.
func (p *Process) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("%s has not ended within %v", p.name, patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Eventually waits until cond holds, and fails the test when it does not within
// a generous time.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-time.After(10 * time.Millisecond)
	}
}
