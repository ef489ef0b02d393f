package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

func stdioCommand(t *testing.T, upstream, policy string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Getenv(binaryVar), "stdio", "--upstream", upstream, "--store", filepath.Join(dir, "tasks.db"), "--policy", file)
	cmd.Stderr = os.Stderr
	return cmd
}

// A desktop host starts the gateway instead of its server, which may be reached by
// HTTP or on stdio as well.
func TestHostOnStdioInASession(t *testing.T) {
	everything := mcptest.NPMFile(t, "@modelcontextprotocol", "server-everything", "dist", "index.js")
	for name, upstream := range map[string]string{
		"http":  mcptest.Everything(t, "streamableHttp").URL,
		"stdio": mcptest.Node(t) + " " + everything,
	} {
		t.Run(name, func(t *testing.T) {
			cmd := stdioCommand(t, upstream, promoteSoon)
			s := goSDKLegacy(t, &mcp.CommandTransport{Command: cmd}, longTool, lasting(2, 4))
			if got := text(t, s.Result); !strings.HasPrefix(got, "Long running operation completed") {
				t.Errorf("result %q", got)
			}
			// On stdio this server begins with a question for the roots, after which
			// a held call tells of no progress.
			if name == "http" && s.Progress == 0 {
				t.Error("no progress was told")
			}
			if code := cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("the gateway ended with code %d when the host closed stdin", code)
			}
			s = goSDKLegacy(t, &mcp.CommandTransport{Command: stdioCommand(t, upstream, promoteSoon)}, "trigger-elicitation-request", arguments{})
			if got := text(t, s.Result); !strings.Contains(got, answerDone) || s.Questions != 1 {
				t.Errorf("%d questions, result %q", s.Questions, got)
			}
		})
	}
}

// A host that knows the tasks of SEP-2663 gets them on stdio.
func TestHostOnStdioWithTasks(t *testing.T) {
	cmd := stdioCommand(t, mcptest.Everything(t, "streamableHttp").URL, promoteSoon)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	sent := 0
	call := func(method, params string) wire.Object {
		t.Helper()
		sent++
		meta := `"_meta":{"` + wire.MetaVersion + `":"` + wire.Version + `","` + wire.MetaCapabilities + `":` + mcptest.TasksOnly + `}`
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s%s}}`+"\n", sent, method, params, meta)
		for lines.Scan() {
			msg, rpc := wire.Decode(bytes.Clone(lines.Bytes()))
			if rpc != nil {
				t.Fatalf("line %q: %v", lines.Bytes(), rpc)
			}
			if msg.IsResponse() {
				result, err := wire.ParseObject(msg.Result)
				if err != nil {
					t.Fatalf("%s: %s", method, msg.Bytes())
				}
				return result
			}
		}
		t.Fatalf("%s: stdout ended: %v", method, lines.Err())
		return nil
	}
	args, _ := json.Marshal(lasting(2, 2)) // numbers
	task := call("tools/call", `"name":"`+longTool+`","arguments":`+string(args)+`,`)
	if kind, _ := wire.String(task.Get("resultType")); kind != wire.ResultTask {
		t.Fatalf("no task: %s", task.Bytes())
	}
	var interval int // milliseconds
	if err := json.Unmarshal(task.Get("pollIntervalMs"), &interval); err != nil || interval <= 0 {
		t.Fatalf("pollIntervalMs of %s: %v", task.Bytes(), err)
	}
	polls := time.NewTicker(time.Duration(interval) * time.Millisecond) // who asks more often is told to wait
	defer polls.Stop()
	for status := wire.StatusWorking; status == wire.StatusWorking; <-polls.C {
		status, _ = wire.String(call("tasks/get", `"taskId":`+string(task.Get("taskId"))+`,`).Get("status"))
		if status != wire.StatusWorking && status != wire.StatusCompleted {
			t.Fatalf("the task is %s", status)
		}
	}
	in.Close()
	for lines.Scan() {
		t.Errorf("a line that nobody asked for: %s", lines.Bytes())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
}
