package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"taskgate/wire"
)

// program is the built gateway.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "demo-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "gateway")
	if out, err := exec.Command("go", buildArgs()...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the gateway: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// buildArgs give the program the race detector when the tests have it.
func buildArgs() []string {
	args := []string{"build", "-o", program}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = append(args, "-race")
			}
		}
	}
	return append(args, "taskgate/cmd/gateway")
}

// start starts the demo with a folder of its own for what it stores.
func start(t *testing.T, flags ...string) (cmd *exec.Cmd, out io.ReadCloser, temp string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	temp = t.TempDir()
	cmd = exec.CommandContext(ctx, program, append([]string{"demo"}, flags...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.Stderr = t.Output()
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out, temp
}

// shown is what the demo shows, in order; other lines may come between.
var shown = []string{
	`A slow tool on a server that knows no tasks becomes a durable task\.`,
	`   sample server   http://127\.0\.0\.1:\d+/mcp   MCP 2025-11-25: sessions, one answer per call`,
	`   gateway         http://127\.0\.0\.1:\d+/mcp   MCP 2026-07-28 with tasks; process \d+`,
	`1  A quick tool answers at once`,
	`   → POST tools/call word_count \{"text":"the tide waits for nobody"\}`,
	`   ← after \d+ ms: "5 words"`,
	`2  A slow tool becomes a task`,
	`   → POST tools/call generate_report \{"topic":"tides"\}`,
	`   ← after [\d.]+ m?s: task [A-Z2-7]{35}, working`,
	`   → POST tasks/get [A-Z2-7]{35}, every \d+ ms`,
	`     █*░+ +\d+ %  input_required`,
	`3  The server asks, the client answers`,
	`   ← q1 elicitation/create: Outline of "tides": Causes, History, Measurements, Outlook\. Approve it\?`,
	`   → POST tasks/update \{"q1":\{"action":"accept","content":\{"approve":true\}\}\}`,
	`   ← acknowledged after \d+ ms`,
	`     █{24} 100 %  completed`,
	`   ← completed, with the result that the server gave:`,
	`     │ # Report: tides`,
	`4  The gateway crashes and comes back`,
	`   → POST tools/call generate_report \{"topic":"storms"\}`,
	`   \$ kill -9 \d+`,
	`   ← nobody answers at 127\.0\.0\.1:\d+`,
	`   \$ gateway serve --listen 127\.0\.0\.1:\d+ .*`,
	`   ← completed, the same \d+ bytes of result as before`,
	`   ← failed, -32603: The gateway replica that ran the call was lost; whether the tool has run to its end is unknown`,
}

func TestStory(t *testing.T) {
	cmd, out, temp := start(t, "--once", "--fast")
	text, err := io.ReadAll(out)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatalf("demo: %v\n%s", err, text)
	}
	lines := strings.Split(string(text), "\n")
	next := 0
	for _, want := range append(shown, `That is all\. What the demo had stored is removed\.`) {
		for next < len(lines) && !regexp.MustCompile("^"+want+"$").MatchString(lines[next]) {
			next++
		}
		if next == len(lines) {
			t.Fatalf("not shown, or not in this order: %s\n%s", want, text)
		}
	}
	if bytes.ContainsRune(text, '\x1b') {
		t.Errorf("escape codes without a terminal:\n%q", text)
	}
	leavesNothing(t, temp)
}

func TestServesOnUntilInterrupted(t *testing.T) {
	cmd, out, temp := start(t, "--fast")
	endpoint := ""
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "   curl -s "); ok {
			endpoint = strings.TrimSuffix(rest, ` \`)
		}
		if strings.HasSuffix(lines.Text(), `}'`) { // the last line
			break
		}
	}
	if got := postByHand(t, endpoint); !strings.Contains(got, `"resultType":"task"`) {
		t.Errorf("the curl command answers %s, want a task", got)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatalf("after the interrupt: %v\n%s", err, rest)
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", u.Host); err == nil {
		conn.Close()
		t.Error("the gateway serves on although the demo has ended")
	}
	leavesNothing(t, temp)
}

func TestReaderWhoLeavesEndsIt(t *testing.T) {
	cmd, out, temp := start(t, "--fast")
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("shows nothing")
	}
	out.Close()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("got %v, want exit code 1", err)
	}
	leavesNothing(t, temp)
}

// postByHand does what the printed curl command does.
func postByHand(t *testing.T, endpoint string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(curlBody))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range regexp.MustCompile(`-H '([^:]+): ([^']+)'`).FindAllStringSubmatch(curlCommand(endpoint), -1) {
		req.Header.Set(h[1], h[2])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func leavesNothing(t *testing.T, temp string) {
	t.Helper()
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestFailureEndsWithCodeOne(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), program, "demo", "--once")
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(t.TempDir(), "missing"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("got %v, want exit code 1", err)
	}
	if !strings.HasPrefix(string(out), "gateway: demo: ") {
		t.Errorf("got %q, want it to say what failed", out)
	}
}

func TestGatewayThatDoesNotStart(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	err := Run(t.Context(), Options{Gateway: []string{program, "no-such-command"}, Out: io.Discard, Once: true, Fast: true})
	if err == nil || !strings.Contains(err.Error(), "demo: the gateway ended: exit status") || !strings.Contains(err.Error(), "no-such-command") {
		t.Errorf("got %v, want an error with the gateway's own words", err)
	}
	leavesNothing(t, temp)
}

func TestGatewayOutlivesTheWaitForIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g, err := startGateway(ctx, []string{program, "serve"}, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--upstream", "http://127.0.0.1:1/mcp", "--store", "memory")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	resp, err := http.Get(g.admin + "/healthz")
	if err != nil {
		t.Fatalf("after the wait was over: %v", err)
	}
	resp.Body.Close()
	g.close()
	if _, err := http.Get(g.admin + "/healthz"); err == nil {
		t.Error("answers after it was closed")
	}
}

func TestReplyInBothForms(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"a"}]}}`
	for mediaType, text := range map[string]string{
		"application/json":  body,
		"text/event-stream": ": keep-alive\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\ndata: " + body + "\n\n",
	} {
		r, err := read(&http.Response{Header: http.Header{"Content-Type": {mediaType}}, Body: io.NopCloser(strings.NewReader(text))})
		if err != nil || r.text() != "a" {
			t.Errorf("%s: got %+v, %v", mediaType, r, err)
		}
	}
	refused := `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`
	_, err := read(&http.Response{Header: http.Header{}, Body: io.NopCloser(strings.NewReader(refused))})
	if rpc := (*wire.Error)(nil); !errors.As(err, &rpc) || rpc.Code != wire.CodeInvalidParams {
		t.Errorf("got %v, want the protocol's error", err)
	}
}
