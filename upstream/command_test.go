package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// start makes the connector of a program, which starts it when it has to.
func start(t *testing.T, command []string, o Options) *Connector {
	t.Helper()
	o.Name = "test"
	h, err := NewCommand(command, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

// say calls a tool and returns the text that it answers.
func say(t *testing.T, h *Connector, r Request) string {
	t.Helper()
	reply, err := h.Call(t.Context(), r, &recorder{ask: answers})
	if err != nil || reply.Result == nil {
		t.Errorf("%s: %s, %v", r.Params, reply.Error, err)
		return ""
	}
	return text(t, reply)
}

// by is a call of somebody who can be asked nothing.
func by(principal string, id uint64, tool, arguments string) Request {
	r := toolCall(id, tool, arguments)
	r.Principal, r.Capabilities = principal, wire.Capabilities{}
	return r
}

func hasEnded(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func pidOf(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%q is no process id", text)
	}
	return n
}

func TestErasOnStdio(t *testing.T) {
	for era, modern := range map[Era]bool{Auto: true, Modern: true, Legacy: false} {
		t.Run(string(era), func(t *testing.T) {
			h := start(t, mcptest.OnStdio(t), Options{Era: era})
			info, err := h.Info(t.Context())
			if err != nil || info.Modern != modern || info.Deaf || !strings.Contains(string(info.ServerInfo), "on-stdio") {
				t.Fatalf("info %+v, %v", info, err)
			}
			check(t, "echo", say(t, h, toolCall(1, "echo", `{"text":"9007199254740993 \u00e9\n"}`)), "9007199254740993 é\n")
			reply, err := h.Call(t.Context(), toolCall(2, "ask", `{"text":"a"}`), &recorder{ask: answers})
			asked := strings.Contains(string(reply.Result), `"input_required"`)
			if err != nil || asked != modern || !modern && text(t, reply) != "a accept Ann" {
				t.Errorf("ask: %s %s, %v", reply.Result, reply.Error, err)
			}
		})
	}
}

func TestEverythingOnStdio(t *testing.T) {
	h := start(t, everythingOnStdio(t), Options{})
	info, err := h.Info(t.Context())
	if err != nil || info.Modern || !strings.Contains(string(info.Capabilities), "tools") {
		t.Fatalf("info %+v, %v", info, err)
	}
	rec := &recorder{ask: func(context.Context, string, wire.Raw) (wire.Raw, *wire.Error) {
		return wire.Raw(`{"action":"accept","content":{"name":"Ann","check":true,"interpretation":"technical"}}`), nil
	}}
	for tool, want := range map[string]string{
		`trigger-long-running-operation {"duration":0.4,"steps":2}`:       "completed",
		`trigger-elicitation-request {}`:                                  "Ann",
		`echo {"message":"9007199254740993 \u00e9"}`:                      "9007199254740993 é",
		`simulate-research-query {"topic":"the answer","ambiguous":true}`: "the answer", // runs only as a task of 2025-11-25
	} {
		name, arguments, _ := strings.Cut(tool, " ")
		reply, err := h.Call(t.Context(), toolCall(uint64(len(tool)), name, arguments), rec)
		if err != nil || !strings.Contains(string(reply.Result), want) {
			t.Errorf("%s: %s %s, %v", tool, reply.Result, reply.Error, err)
		}
	}
}

// server-everything asks for roots on its own account, some time after initialize.
// On a channel the call that runs then passes for the asker; but the roots of one
// caller are not to become those of all.
func TestEverythingAsksForRootsOnItsOwnAccount(t *testing.T) {
	for isolation, asked := range map[Isolation]bool{PerPrincipal: true, Shared: false} {
		t.Run(string(isolation), func(t *testing.T) {
			h := start(t, everythingOnStdio(t), Options{Isolation: isolation})
			rec := &recorder{ask: func(context.Context, string, wire.Raw) (wire.Raw, *wire.Error) {
				return wire.Raw(`{"roots":[]}`), nil
			}}
			reply, err := h.Call(t.Context(), toolCall(1, "trigger-long-running-operation", `{"duration":1,"steps":1}`), rec)
			if err != nil || !strings.Contains(string(reply.Result), "completed") {
				t.Errorf("%s %s, %v", reply.Result, reply.Error, err)
			}
			_, _, questions := rec.seen()
			check(t, "the call is asked for roots", slices.Contains(questions, wire.MethodRoots), asked)
		})
	}
}

func everythingOnStdio(t *testing.T) []string {
	return []string{mcptest.Node(t), mcptest.NPMFile(t, "@modelcontextprotocol", "server-everything", "dist", "index.js"), "stdio"}
}

func TestWhoSharesAProcess(t *testing.T) {
	for _, tt := range []struct {
		isolation              Isolation
		samePrincipal, another bool // share with the first
	}{{Shared, true, true}, {PerPrincipal, true, false}, {PerCall, false, false}} {
		for _, era := range []Era{Legacy, Modern} {
			t.Run(string(tt.isolation)+" "+string(era), func(t *testing.T) {
				h := start(t, mcptest.OnStdio(t), Options{Era: era, Isolation: tt.isolation})
				first := say(t, h, by("a", 1, "pid", `{}`))
				check(t, "the same principal shares", say(t, h, by("a", 2, "pid", `{}`)) == first, tt.samePrincipal)
				check(t, "another one shares", say(t, h, by("b", 3, "pid", `{}`)) == first, tt.another)
				if tt.isolation == PerCall {
					eventually(t, "a call's process ends with it", func() bool { return hasEnded(pidOf(t, first)) })
				}
			})
		}
	}
}

// A question on a channel has no name of its call on it.
func TestQuestionsOnAChannelReachTheirCalls(t *testing.T) {
	h := start(t, mcptest.OnStdio(t), Options{Era: Legacy, Isolation: Shared})
	var wg sync.WaitGroup
	for id := uint64(1); id <= 6; id++ {
		wg.Go(func() {
			name := fmt.Sprint("caller", id)
			r := toolCall(id, "ask", fmt.Sprintf(`{"text":%q}`, name))
			r.Principal = name
			rec := &recorder{ask: func(_ context.Context, _ string, params wire.Raw) (wire.Raw, *wire.Error) {
				if !strings.Contains(string(params), "name of "+name) {
					t.Errorf("%s is asked %s", name, params)
				}
				return wire.Raw(`{"action":"accept","content":{"name":"` + name + `"}}`), nil
			}}
			reply, err := h.Call(t.Context(), r, rec)
			if want := name + " accept " + name; err != nil || text(t, reply) != want {
				t.Errorf("%s: %s %s, %v", name, reply.Result, reply.Error, err)
			}
		})
	}
	wg.Wait()
}

// Calls that may ask wait for their turn when there cannot be a process more.
func TestAtTheLimitOfProcessesCallsWait(t *testing.T) {
	h := start(t, mcptest.OnStdio(t), Options{Era: Legacy, MaxSessions: 1, Patience: time.Minute})
	var wg sync.WaitGroup
	for id := uint64(1); id <= 4; id++ {
		wg.Go(func() { check(t, "answer", say(t, h, toolCall(id, "ask", `{"text":"a"}`)), "a accept Ann") })
	}
	wg.Wait()
	impatient := start(t, mcptest.OnStdio(t), Options{Era: Legacy, MaxSessions: 1, Patience: time.Millisecond})
	call := underWay(t, impatient, toolCall(1, "wait", `{}`))
	_, err := impatient.Call(t.Context(), toolCall(2, "pid", `{}`), &recorder{})
	check(t, "no room", isKind(err, Full), true)
	call.cancels()
}

// underWay is a call whose tool has shown that it runs.
func underWay(t *testing.T, h *Connector, r Request) *pending {
	t.Helper()
	rec := &recorder{ask: answers}
	p := begin(t, func(ctx context.Context) (Reply, error) { return h.Call(ctx, r, rec) })
	eventually(t, "the call runs", func() bool {
		progress, _, _ := rec.seen()
		return len(progress) > 0
	})
	return p
}

// cancels ends the call here as a client does that hangs up.
func (p *pending) cancels() {
	p.t.Helper()
	p.leave(context.Canceled)
	if _, err := p.wait(); !errors.Is(err, context.Canceled) {
		p.t.Errorf("a call that was cancelled: %v", err)
	}
}

func TestCancelOnStdioLeavesTheProcessAlone(t *testing.T) {
	for _, era := range []Era{Legacy, Modern} {
		t.Run(string(era), func(t *testing.T) {
			log, lines := observer.New(zap.InfoLevel)
			h := start(t, mcptest.OnStdio(t), Options{Era: era, Log: zap.New(log)})
			pid := say(t, h, by("a", 1, "pid", `{}`))
			first, second := underWay(t, h, by("a", 2, "wait", `{}`)), underWay(t, h, by("a", 3, "wait", `{}`))
			first.cancels()
			eventually(t, "the server is told, and its stderr is in the log", func() bool {
				return lines.FilterField(zap.String("stderr", "wait was cancelled")).FilterField(zap.String("upstream", "test")).Len() == 1
			})
			check(t, "the process stays", say(t, h, by("a", 4, "pid", `{}`)), pid)
			select {
			case <-second.done:
				t.Error("the other call has ended too")
			default:
				second.cancels()
			}
		})
	}
}

// server-everything never answers a cancelled call. It may still ask something, of
// which nobody could know whose it is.
func TestACancelledCallThatMayAskIsAlone(t *testing.T) {
	h := start(t, everythingOnStdio(t), Options{Era: Legacy, CancelTimeout: 100 * time.Millisecond})
	underWay(t, h, toolCall(1, "trigger-long-running-operation", `{"duration":60,"steps":600}`)).cancels()
	reply, err := h.Call(t.Context(), toolCall(2, "echo", `{"message":"again"}`), &recorder{})
	if err != nil || reply.Result == nil {
		t.Errorf("reply %s, %v", reply.Error, err)
	}
	check(t, "processes", h.sessions.size(), 2)
}

// Neither side may wait for the other to read while it writes.
func TestBigMessagesBothWays(t *testing.T) {
	for _, era := range []Era{Legacy, Modern} {
		t.Run(string(era), func(t *testing.T) {
			h := start(t, mcptest.OnStdio(t), Options{Era: era})
			big := strings.Repeat("x", 8<<20)
			var wg sync.WaitGroup
			for id := uint64(1); id <= 3; id++ {
				wg.Go(func() {
					if got := say(t, h, by("a", id, "echo", `{"text":"`+big+`"}`)); got != big {
						t.Errorf("%d bytes came back", len(got))
					}
				})
			}
			wg.Wait()
		})
	}
}

func TestAMessageOverTheLimit(t *testing.T) {
	h := start(t, mcptest.OnStdio(t), Options{Era: Legacy, MaxEvent: 64 << 10})
	_, err := h.Call(t.Context(), by("a", 1, "echo", `{"text":"x","repeat":100000}`), &recorder{})
	var e *Error
	if !errors.As(err, &e) || e.Kind != TooLarge || e.Limit != 64<<10 || !e.MayHaveRun {
		t.Errorf("error %v", err)
	}
	check(t, "the next call", say(t, h, by("a", 2, "echo", `{"text":"x"}`)), "x")
}

func TestExitInMidCall(t *testing.T) {
	for _, era := range []Era{Legacy, Modern} {
		t.Run(string(era), func(t *testing.T) {
			h := start(t, mcptest.OnStdio(t), Options{Era: era})
			other := underWay(t, h, by("a", 1, "wait", `{}`))
			_, err := h.Call(t.Context(), by("a", 2, "exit", `{}`), &recorder{})
			_, otherErr := other.wait()
			for _, err := range []error{err, otherErr} {
				if !isKind(err, Broken) || !errors.Is(err, ErrOutcomeUnknown) || !strings.Contains(err.Error(), "exit status 3; what it wrote to stderr is in the gateway's log") {
					t.Errorf("error %v", err)
				}
				if strings.Contains(err.Error(), "secret") {
					t.Error("the error repeats what the server wrote")
				}
			}
			check(t, "a new process answers", say(t, h, by("a", 3, "echo", `{"text":"x"}`)), "x")
		})
	}
}

// A process that ended while nobody called is replaced without anybody noticing.
func TestAnIdleProcessMayEnd(t *testing.T) {
	for _, era := range []Era{Legacy, Modern} {
		t.Run(string(era), func(t *testing.T) {
			h := start(t, mcptest.OnStdio(t), Options{Era: era, Retry: time.Nanosecond}) // no pauses between starts
			for id := uint64(1); id < 6; id += 2 {
				pid := pidOf(t, say(t, h, by("a", id, "pid", `{}`)))
				_ = syscall.Kill(pid, syscall.SIGKILL)
				eventually(t, "it is gone", func() bool { return hasEnded(pid) })
				check(t, "echo", say(t, h, by("a", id+1, "echo", `{"text":"x"}`)), "x")
			}
		})
	}
}

func TestAProgramThatKeepsEnding(t *testing.T) {
	clock := time.Unix(1_800_000_000, 0)
	var mu sync.Mutex
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return clock
	}
	log, lines := observer.New(zap.InfoLevel)
	metrics := prometheus.NewRegistry()
	h := start(t, mcptest.OnStdio(t, "-dies"), Options{Era: Legacy, Now: now, Log: zap.New(log), Metrics: metrics})
	call := func() error {
		_, err := h.Call(t.Context(), by("a", 1, "echo", `{}`), &recorder{})
		return err
	}
	var e *Error
	for n := 1; n <= 2; n++ {
		if err := call(); !errors.As(err, &e) || e.MayHaveRun || !strings.Contains(err.Error(), "exit status 3") || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v", err)
		}
	}
	if err := call(); !isKind(err, Unreachable) || !strings.Contains(err.Error(), "the 2. time in a row, it is not started again for 1s") {
		t.Errorf("error in the pause: %v", err)
	}
	if err := h.Trouble(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("trouble: %v", err)
	}
	mu.Lock()
	clock = clock.Add(time.Second)
	mu.Unlock()
	if err := call(); err == nil || strings.Contains(err.Error(), "in a row") {
		t.Errorf("error after the pause: %v", err)
	}
	check(t, "ends", testutil.ToFloat64(h.metrics.ended), 3)
	mcptest.Eventually(t, 10*time.Second, "what it says three times is in the log", func() bool { // it is read beside what ends a process
		return lines.FilterField(zap.String("stderr", "secret of the server")).Len() == 3
	})
	mu.Lock()
	clock = clock.Add(time.Hour)
	mu.Unlock()
	check(t, "trouble after an hour", h.Trouble(), nil)
}

func TestAProgramIsStartedOnceForAll(t *testing.T) {
	h := start(t, mcptest.OnStdio(t), Options{Era: Legacy})
	var wg sync.WaitGroup
	var mu sync.Mutex
	pids := map[string]bool{}
	for id := uint64(1); id <= 10; id++ {
		wg.Go(func() {
			pid := say(t, h, by("a", id, "pid", `{}`))
			mu.Lock()
			defer mu.Unlock()
			pids[pid] = true
		})
	}
	wg.Wait()
	check(t, "processes", len(pids), 1)
}

func TestAProgramThatDoesNotAnswer(t *testing.T) {
	h := start(t, mcptest.OnStdio(t, "-silent"), Options{InitializeTimeout: 200 * time.Millisecond, CancelTimeout: 50 * time.Millisecond})
	_, err := h.Call(t.Context(), by("a", 1, "echo", `{}`), &recorder{})
	check(t, "timed out", isKind(err, TimedOut), true)
	check(t, "processes", h.sessions.size(), 0)
}

// What a program has started ends with it, and a program that does not want to end
// is made to.
func TestNothingIsLeftOfAProgram(t *testing.T) {
	for name, flags := range map[string][]string{"one that ends": nil, "one that stays": {"-stays"}} {
		t.Run(name, func(t *testing.T) {
			mcptest.Goroutines(t)
			file := filepath.Join(t.TempDir(), "id")
			h, err := NewCommand(mcptest.OnStdio(t, append(flags, "-descends="+file)...), Options{Era: Legacy, CancelTimeout: 50 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			pid := pidOf(t, say(t, h, by("a", 1, "pid", `{}`)))
			id, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
			check(t, "the program is gone", hasEnded(pid), true)
			eventually(t, "its descendant is gone", func() bool { return hasEnded(pidOf(t, string(id))) || zombie(string(id)) })
		})
	}
}

// zombie tells a process that has ended, for which whoever inherited it has not
// asked yet.
func zombie(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && strings.HasPrefix(state, "Z")
}

func TestCloseEndsProcessesWithRunningCalls(t *testing.T) {
	h, err := NewCommand(mcptest.OnStdio(t), Options{Era: Legacy, CancelTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	pid := pidOf(t, say(t, h, by("a", 1, "pid", `{}`)))
	call := underWay(t, h, by("a", 2, "wait", `{}`))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check(t, "closed in time", errors.Is(h.Close(ctx), context.Canceled), true)
	check(t, "the program is gone", hasEnded(pid), true)
	_, err = call.wait()
	check(t, "the call's outcome is unknown", errors.Is(err, ErrOutcomeUnknown), true)
}

func TestListenOnStdio(t *testing.T) {
	for _, era := range []Era{Legacy, Modern} {
		t.Run(string(era), func(t *testing.T) {
			h := start(t, mcptest.OnStdio(t), Options{Era: era, Isolation: Shared})
			s, err := h.Listen(t.Context(), ListenRequest{Want: wire.Filter{Tools: true}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			check(t, "honoured", s.Honoured().Tools, true)
			check(t, "grow", say(t, h, by("a", 1, "grow", `{"text":"more"}`)), "grown")
			eventually(t, "it is heard", func() bool {
				notes := s.Take()
				return len(notes) == 1 && notes[0].Method == wire.NoteTools
			})
		})
	}
}

func TestProgramsThatAreNoServers(t *testing.T) {
	missing := start(t, []string{filepath.Join(t.TempDir(), "none")}, Options{})
	if _, err := missing.Call(t.Context(), toolCall(1, "x", `{}`), &recorder{}); !isKind(err, Unreachable) {
		t.Errorf("a missing program: %v", err)
	}
	if _, err := NewCommand(nil, Options{}); err == nil {
		t.Error("an empty command was taken")
	}
	if _, err := NewCommand([]string{"x"}, Options{Isolation: "none"}); err == nil || !strings.Contains(err.Error(), `isolation "none"`) {
		t.Errorf("an isolation that is not known: %v", err)
	}
}
