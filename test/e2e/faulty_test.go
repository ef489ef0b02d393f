package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/internal/redistest"
	"taskgate/wire"
)

// fault is how a faulty upstream answers tools/call. Everything else it answers
// well.
type fault func(w http.ResponseWriter, r *http.Request, id wire.Raw)

// startFaulty starts a modern server whose one tool has the fault.
func startFaulty(t testing.TB, f fault) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		m, _ := wire.Decode(body)
		switch m.Method {
		case "server/discover":
			reply(w, m.ID, `{"resultType":"complete","ttlMs":0,"cacheScope":"public","supportedVersions":["`+wire.Version+`"],"capabilities":{"tools":{}}}`)
		case "tools/call":
			f(w, r, m.ID)
		default:
			reply(w, m.ID, `{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[]}`)
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/"
}

func TestUpstreamFaultsAreTold(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fault  fault
		reason string
		// mayHaveRun: the client must not be told that it may simply try again.
		mayHaveRun bool
	}{
		{"401", status(http.StatusUnauthorized), "upstream_unauthorized", false},
		{"500", status(http.StatusInternalServerError), "upstream_refused", true},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request, _ wire.Raw) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "<html>")
		}, "outcome_unknown", true},
		{"stream closed in the middle", func(w http.ResponseWriter, _ *http.Request, _ wire.Raw) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": working\n\nevent: message\ndata: {\"jsonrpc\":")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "outcome_unknown", true},
		{"stream ended without a response", func(w http.ResponseWriter, _ *http.Request, _ wire.Raw) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": that is all\n\n")
		}, "outcome_unknown", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, Start(t, Options{Upstream: startFaulty(t, tc.fault), Policy: promoteSoon}).Endpoint)
			checkReason(t, errorOf(t, c.call(t, "any", arguments{})), tc.reason, !tc.mayHaveRun)
		})
	}
}

func TestUpstreamThatIsDown(t *testing.T) {
	c := newClient(t, Start(t, Options{Upstream: fmt.Sprintf("http://127.0.0.1:%d/mcp", FreePort(t))}).Endpoint)
	checkReason(t, errorOf(t, c.call(t, "any", arguments{})), "upstream_unreachable", true)
	within(t, 5*time.Second, "discover", func() {
		r := resultOf(t, c.send(t, "server/discover", nil))
		if !strings.Contains(string(r.Get("supportedVersions")), wire.Version) {
			t.Errorf("discover: %s", r.Bytes())
		}
	})
}

// An upstream that never answers costs a task, which its timeout ends.
func TestUpstreamThatHangs(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request, _ wire.Raw) { <-r.Context().Done() }
	c := newClient(t, Start(t, Options{
		Upstream: startFaulty(t, hang),
		Policy:   "defaults: {promoteAfter: 500ms, pollInterval: 200ms, timeout: 2s}\n",
	}).Endpoint)
	task := c.wait(t, c.start(t, "any", arguments{}), wire.StatusFailed)
	checkReason(t, wire.ParseError(task.Get("error")), "timeout", false)
	if task.Get("statusMessage") == nil {
		t.Errorf("a failed task says nothing to people: %s", task.Bytes())
	}
}

func TestStoreThatIsDown(t *testing.T) {
	redis := redistest.Start(t)
	g := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon, Store: redis.URL()})
	c := newClient(t, g.Endpoint)
	before := c.start(t, longTool, lasting(600, 600))
	ended := c.start(t, longTool, lasting(1, 1))
	c.wait(t, ended, wire.StatusCompleted)

	redis.Kill(t)

	t.Run("a call stays synchronous", func(t *testing.T) {
		r := resultOf(t, c.call(t, longTool, lasting(2, 2)))
		if got := text(t, r.Bytes()); got != longDone {
			t.Errorf("result: %q, want %q", got, longDone)
		}
	})
	t.Run("a task cannot be read for now", func(t *testing.T) {
		checkReason(t, errorOf(t, c.send(t, "tasks/get", taskParams(before))), "store_unavailable", true)
	})
	t.Run("the replica stays ready for calls", func(t *testing.T) {
		resp, err := http.Get(g.Admin + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("readyz: %d", resp.StatusCode)
		}
	})

	redis.Restart(t)

	t.Run("no task is lost when it is back", func(t *testing.T) {
		Eventually(t, "tasks are read again", func() bool {
			return c.send(t, "tasks/get", taskParams(before)).Message.Result != nil
		})
		c.wait(t, ended, wire.StatusCompleted)
		fresh := c.start(t, longTool, lasting(2, 2))
		c.wait(t, fresh, wire.StatusCompleted)
	})
}

func TestBadStartsAreExplained(t *testing.T) {
	upstream := "http://127.0.0.1:9/mcp" // nobody is asked
	locked := filepath.Join(t.TempDir(), "taskgate.db")
	Start(t, Options{Upstream: upstream, Store: locked})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		o    Options
		want string
	}{
		{"store in a place that cannot be written", Options{Upstream: upstream, Store: filepath.Join(file, "taskgate.db")}, "store"},
		{"store of another process", Options{Upstream: upstream, Store: locked}, "another process"},
		{"no upstream", Options{}, "upstream"},
		{"unknown key in the policy", Options{Upstream: upstream, Policy: "defaults: {promoteAftr: 2s}\n"}, "policy.yaml:1"},
		{"bare number in the policy", Options{Upstream: upstream, Policy: "defaults: {promoteAfter: 2}\n"}, "policy.yaml:1"},
		{"unknown key in the configuration", Options{Upstream: upstream, Config: "listn: 127.0.0.1:0\n"}, "config.yaml:1"},
		{"beyond loopback without identity", Options{Upstream: upstream, Config: "listen: 0.0.0.0:0\n", Args: []string{"--listen", "0.0.0.0:0"}}, "identity"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, output := StartFailing(t, tc.o)
			if code == 0 || !strings.Contains(strings.ToLower(output), tc.want) {
				t.Errorf("exit code %d, output does not say %q:\n%s", code, tc.want, output)
			}
			if strings.Contains(output, "goroutine ") {
				t.Errorf("the output is a crash:\n%s", output)
			}
		})
	}
}

func TestTerminateEndsWithZero(t *testing.T) {
	g := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL})
	c := newClient(t, g.Endpoint)
	resultOf(t, c.call(t, "echo", arguments{"message": "hello"}))
	if code := g.Terminate(t); code != 0 {
		t.Errorf("exit code after SIGTERM: %d", code)
	}
}

func checkReason(t *testing.T, e *wire.Error, reason string, retriable bool) {
	t.Helper()
	data, err := wire.ParseObject(e.Data)
	if err != nil {
		t.Fatalf("error without data: %v", e)
	}
	got, _ := wire.String(data.Get("reason"))
	if e.Code != wire.CodeInternal || got != reason || string(data.Get("retriable")) != fmt.Sprint(retriable) {
		t.Errorf("error: %d %q %s\nwant: %d, reason %q, retriable %t", e.Code, e.Message, e.Data, wire.CodeInternal, reason, retriable)
	}
}

func status(code int) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ wire.Raw) { http.Error(w, "out of order", code) }
}

func reply(w http.ResponseWriter, id wire.Raw, result string) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(wire.Result(id, wire.Raw(result)).Bytes())
}
