package mcptest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestEverythingOverStreamableHTTP(t *testing.T) {
	p := Everything(t, "streamableHttp")
	checkEcho(t, &mcp.StreamableClientTransport{Endpoint: p.URL, DisableStandaloneSSE: true})
	pid, url := p.PID(), p.URL
	p.Kill()
	if p.listens() {
		t.Error("it listens after its end")
	}
	p.Start()
	if p.PID() == pid || p.URL != url {
		t.Errorf("started again as %d at %s", p.PID(), p.URL)
	}
	checkEcho(t, &mcp.StreamableClientTransport{Endpoint: p.URL, DisableStandaloneSSE: true})
}

func TestEverythingOverSSE(t *testing.T) {
	p := Everything(t, "sse")
	checkEcho(t, &mcp.SSEClientTransport{Endpoint: p.URL})
}

func checkEcho(t *testing.T, transport mcp.Transport) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got, err := callSDK(t, session, "echo", map[string]any{"message": "hi"}); err != nil || got != "Echo: hi" {
		t.Errorf("echo: %q, %v", got, err)
	}
}

// Every form of listen ends up on the loopback interface.
func TestLoopback(t *testing.T) {
	preload := filepath.Join(t.TempDir(), "loopback.cjs")
	if err := os.WriteFile(preload, loopback, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range []string{`0`, `"0"`, `0, done`, `0, "0.0.0.0"`, `0, "::", done`, `0, "0.0.0.0", 5, done`, `{port: 0}`, `{port: 0, host: "0.0.0.0"}, done`} {
		script := `const s = require("net").createServer(); const done = () => {};
			s.on("listening", () => { console.log(s.address().address); s.close(); }); s.listen(` + arguments + `)`
		out, err := exec.Command(Node(t), "-r", preload, "-e", script).CombinedOutput()
		if strings.TrimSpace(string(out)) != "127.0.0.1" || err != nil {
			t.Errorf("listen(%s): %s, %v", arguments, out, err)
		}
	}
}
