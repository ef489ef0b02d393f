package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Bounds on the gateway's process.
const (
	startTimeout = 30 * time.Second
	stopTimeout  = 5 * time.Second
	keptLines    = 10 // of its log
)

// gateway is a gateway in a process of its own.
type gateway struct {
	endpoint string // the URL that clients use
	admin    string // the URL of health and metrics

	cmd   *exec.Cmd
	stop  context.CancelFunc // asks it to end, and kills it when it does not
	ended chan struct{}      // closed when it has
	lines []string           // the last ones of its log; to be read after ended
}

// startGateway starts program and waits, as long as ctx lasts, until it listens.
// The process runs until it is closed or killed.
func startGateway(ctx context.Context, program []string, flags ...string) (*gateway, error) {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(life, program[0], slices.Concat(program[1:], flags)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	cmd.Env = environment()
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	g := &gateway{cmd: cmd, stop: stop, ended: make(chan struct{})}
	listening := make(chan listeningLine, 1)
	go g.follow(log, listening)
	return g, g.waitFor(ctx, listening)
}

// environment is this process's own without what would configure the gateway,
// which is to do what the demo says.
func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TASKGATE_") })
	return append(env, "TASKGATE_TIMEOUTS_DRAIN=1s")
}

// listeningLine is the line of the log that says where the gateway is.
type listeningLine struct {
	Message   string   `json:"msg"`
	Endpoints []string `json:"endpoints"`
	Admin     string   `json:"admin"`
}

// follow reads the log until the process has ended.
func (g *gateway) follow(log io.Reader, listening chan<- listeningLine) {
	defer close(g.ended)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		g.lines = append(g.lines, lines.Text())
		g.lines = g.lines[max(0, len(g.lines)-keptLines):]
		var l listeningLine
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Message == "listening" && len(l.Endpoints) > 0 {
			listening <- l
		}
	}
	_, _ = io.Copy(io.Discard, log) // after a line too long to be read
	_ = g.cmd.Wait()                // how it ended is in ProcessState
}

func (g *gateway) waitFor(ctx context.Context, listening <-chan listeningLine) error {
	select {
	case l := <-listening:
		g.endpoint, g.admin = l.Endpoints[0], l.Admin
		return nil
	case <-g.ended:
		return g.failure()
	case <-time.After(startTimeout):
		g.close()
		return fmt.Errorf("the gateway did not listen within %s", startTimeout)
	case <-ctx.Done():
		g.close()
		return ctx.Err()
	}
}

// failure is the error for a gateway that has ended by itself.
func (g *gateway) failure() error {
	return fmt.Errorf("the gateway ended: %s\n%s", g.cmd.ProcessState, strings.Join(g.lines, "\n"))
}

func (g *gateway) pid() int { return g.cmd.Process.Pid }

// kill ends the process as a crash would: SIGKILL, to its id alone.
func (g *gateway) kill() error {
	if err := g.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the gateway: %w", err)
	}
	g.close()
	return nil
}

// close ends the process if it still runs.
func (g *gateway) close() {
	g.stop()
	<-g.ended
}
