// Package rig starts the programs that are measured and says what they use.
package rig

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long a program may take until it listens.
const patience = 30 * time.Second

// Process is a started program, with the children that it starts itself.
type Process struct {
	Name string
	Addr string // host:port where it listens

	cmd    *exec.Cmd
	log    string
	exited chan struct{} // closed when the program has ended
}

// Start runs a program that listens on addr, and waits until it does. What it
// writes goes to a file in dir, the end of which is part of the error.
func Start(dir, name, addr, program string, args ...string) (*Process, error) {
	p := &Process{Name: name, Addr: addr, cmd: exec.Command(program, args...), log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.exited)
	}()
	if err := p.waitListening(); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s: %w:\n%s", name, err, p.tail())
	}
	return p, nil
}

func (p *Process) waitListening() error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if c, err := net.Dial("tcp", p.Addr); err == nil {
			return c.Close()
		}
		select {
		case <-p.exited:
			return errors.New("ended before it listened")
		case <-time.After(time.Millisecond):
		}
	}
	return fmt.Errorf("does not listen on %s within %v", p.Addr, patience)
}

// tail is the end of what the program wrote.
func (p *Process) tail() []byte {
	const most = 4 << 10
	text, _ := os.ReadFile(p.log) // then there is nothing to say
	return bytes.TrimSpace(text[max(0, len(text)-most):])
}

// Stop asks the program to end, and ends it when it takes too long.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error says that it has ended already
	select {
	case <-p.exited:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// PID is the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// CPU is the processor time that the program and its children have used.
func (p *Process) CPU() time.Duration {
	const tick = time.Second / 100 // USER_HZ, which Linux shows everywhere
	var ticks int64
	for _, pid := range tree(p.PID()) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it may have just ended
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		fields := strings.Fields(string(rest))
		if len(fields) > 12 {
			ticks += number(fields[11]) + number(fields[12]) // utime and stime
		}
	}
	return time.Duration(ticks) * tick
}

// RSS is the memory that the program and its children have in use, in bytes.
func (p *Process) RSS() int64 {
	var pages int64
	for _, pid := range tree(p.PID()) {
		statm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if fields := strings.Fields(string(statm)); len(fields) > 1 {
			pages += number(fields[1])
		}
	}
	return pages * int64(os.Getpagesize())
}

func tree(pid int) []int {
	all := []int{pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range tasks {
		children, _ := os.ReadFile(file)
		for _, child := range strings.Fields(string(children)) {
			all = append(all, tree(int(number(child)))...)
		}
	}
	return all
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// FreeAddr is an address on loopback where nothing listens.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
