package app_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"taskgate/cmd/gateway/app/apptest"
	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// limit is how long a test waits for what must happen.
const limit = 20 * time.Second

// gateway is a whole gateway in this process.
type gateway struct {
	*apptest.Gateway
	log   *lockedBuffer // everything, from debug on
	audit string        // path of the audit log
}

// start runs a gateway with the given configuration; $DIR in it is a directory
// of its own, where policy.yaml is the policy.
func start(t testing.TB, yaml, policy string, environ ...string) *gateway {
	t.Helper()
	g := &gateway{log: &lockedBuffer{}}
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), g.log, zap.DebugLevel))
	g.Gateway = apptest.Start(t, log, "audit: {to: $DIR/audit.log}\n"+yaml, policy, environ...)
	g.audit = filepath.Join(g.Dir, "audit.log")
	return g
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func sum(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

// client is a client of the endpoint at path, with these headers on every request.
func (g *gateway) client(t testing.TB, path, capabilities string, header ...string) *mcptest.Client {
	t.Helper()
	for _, url := range g.Endpoints() {
		if strings.HasSuffix(url, path) {
			c := mcptest.NewClient(url, capabilities)
			t.Cleanup(c.Close)
			for i := 0; i < len(header); i += 2 {
				c.Header.Set(header[i], header[i+1])
			}
			return c
		}
	}
	t.Fatalf("no endpoint at %s among %v", path, g.Endpoints())
	return nil
}

// must is the reply of a request that was answered over HTTP, whatever it says.
func must(t testing.TB) func(mcptest.Reply, error) mcptest.Reply {
	t.Helper()
	return func(r mcptest.Reply, err error) mcptest.Reply {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// task makes a call that becomes a task.
func task(t *testing.T, c *mcptest.Client, tool, arguments string) (id string) {
	t.Helper()
	r := must(t)(c.CallTool(t.Context(), tool, arguments))
	if id = r.TaskID(); id == "" {
		t.Fatalf("no task: %d %s", r.Status, r.Body)
	}
	return id
}

func wait(t *testing.T, c *mcptest.Client, id, status string) wire.Object {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	state, err := c.WaitTask(ctx, id, status)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// auditLines are the events so far.
func (g *gateway) auditLines(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(g.audit)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) Sync() error { return nil }

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
