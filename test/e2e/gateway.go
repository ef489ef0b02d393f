package e2e

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Options of a Gateway. The zero value of each leaves the flag away, but for
// those that say otherwise.
type Options struct {
	Upstream string
	// Store is the value of --store; "" is an embedded store of the test's own.
	Store string
	// Policy and Config are the contents of files.
	Policy string
	Config string
	Env    []string
	Args   []string
}

// Gateway is the program under test.
type Gateway struct {
	*Process
	// Endpoint is the first MCP endpoint, Endpoints are all of them.
	Endpoint  string
	Endpoints []string
	// Admin is the base URL of the admin listener.
	Admin string

	args []string
	env  []string
}

// Start starts the gateway on free ports and waits until it listens.
func Start(t testing.TB, o Options) *Gateway {
	t.Helper()
	g := &Gateway{args: o.flags(t), env: o.Env}
	g.run(t, "127.0.0.1:0", "127.0.0.1:0")
	return g
}

// StartFailing starts a gateway that cannot do what it is asked, and returns its
// exit code and what it wrote.
func StartFailing(t testing.TB, o Options) (code int, output string) {
	t.Helper()
	g := &Gateway{args: o.flags(t), env: o.Env}
	p := StartProcess(t, g.command("127.0.0.1:0", "127.0.0.1:0"))
	return p.Wait(t), p.Output()
}

// Restart starts the gateway again, with the addresses and the store it had.
// It must have been killed or terminated before.
func (g *Gateway) Restart(t testing.TB) {
	t.Helper()
	g.run(t, hostOf(t, g.Endpoint), hostOf(t, g.Admin))
}

func (g *Gateway) run(t testing.TB, listen, adminListen string) {
	t.Helper()
	g.Process = StartProcess(t, g.command(listen, adminListen))
	var at listening
	Eventually(t, "the gateway listens", func() bool {
		if !g.Alive() {
			t.Fatal("the gateway has ended before it listened")
		}
		return at.find(g.Lines())
	})
	g.Endpoints, g.Endpoint, g.Admin = at.Endpoints, at.Endpoints[0], at.Admin
}

func (g *Gateway) command(listen, adminListen string) *exec.Cmd {
	args := append([]string{"serve", "--log-format", "json", "--listen", listen, "--admin-listen", adminListen}, g.args...)
	cmd := exec.Command(os.Getenv(binaryVar), args...)
	cmd.Env = append(os.Environ(), g.env...)
	return cmd
}

// listening is the log line that says where the gateway can be reached.
type listening struct {
	Message   string   `json:"msg"`
	Endpoints []string `json:"endpoints"`
	Admin     string   `json:"admin"`
}

func (l *listening) find(lines []string) bool {
	for _, line := range lines {
		if json.Unmarshal([]byte(line), l) == nil && l.Message == "listening" && len(l.Endpoints) > 0 {
			return true
		}
	}
	return false
}

func (o Options) flags(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	if o.Store == "" {
		o.Store = filepath.Join(dir, "data")
	}
	args := []string{"--store", o.Store}
	if o.Upstream != "" {
		args = append(args, "--upstream", o.Upstream)
	}
	for flag, content := range map[string]string{"policy": o.Policy, "config": o.Config} {
		if content == "" {
			continue
		}
		file := filepath.Join(dir, flag+".yaml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatalf("write the %s file: %v", flag, err)
		}
		args = append(args, "--"+flag, file)
	}
	return append(args, o.Args...)
}

func hostOf(t testing.TB, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatalf("address in the listening line: %v", err)
	}
	return u.Host
}
