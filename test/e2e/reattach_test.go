package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// counter is a proxy before a server that counts the calls of tools and how
// many sessions were ended.
type counter struct {
	URL              string
	calls, deletions atomic.Int32
}

func count(t testing.TB, server string) *counter {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{}
	forward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if m, _ := wire.Decode(body); m.Method == "tools/call" {
			c.calls.Add(1)
		}
		if r.Method == http.MethodDelete {
			c.deletions.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	c.URL = s.URL + target.Path
	return c
}

// ran checks how many calls have reached the server.
func (c *counter) ran(t testing.TB, want int32) {
	t.Helper()
	if got := c.calls.Load(); got != want {
		t.Errorf("%d calls reached the server, want %d", got, want)
	}
}

// progressed waits until the task has told how far it is.
func (c client) progressed(t testing.TB, id string) {
	t.Helper()
	Eventually(t, "progress", func() bool {
		task, _, err := c.look(t.Context(), id)
		message, _ := wire.String(task.Get("statusMessage"))
		return err == nil && strings.HasPrefix(message, "Progress")
	})
}

func TestALongCallOutlivesAKilledGateway(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			server := count(t, mcptest.Everything(t, "streamableHttp").URL)
			g := Start(t, Options{Upstream: server.URL, Policy: promoteSoon, Store: store(t), Config: "lease: 2s\ntimeouts: {store: 1s}\n"})
			c := newClient(t, g.Endpoint)
			id := c.start(t, longTool, lasting(8, 16))
			c.progressed(t, id)
			g.Kill()
			g.Restart(t)
			task := c.wait(t, id, wire.StatusCompleted)
			if got := text(t, task.Get("result")); !strings.HasPrefix(got, "Long running operation completed. Duration: 8 seconds") {
				t.Errorf("result: %s", got)
			}
			server.ran(t, 1)
		})
	}
}

func TestAQuestionOutlivesAKilledGateway(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			server := count(t, mcptest.Everything(t, "streamableHttp").URL)
			g := Start(t, Options{Upstream: server.URL, Policy: promoteSoon, Store: store(t), Config: "lease: 2s\ntimeouts: {store: 1s}\n"})
			c := newClient(t, g.Endpoint)
			var ids []string
			for range 3 { // in one session, whose streams this server mixes
				ids = append(ids, c.start(t, "trigger-elicitation-request", arguments{}))
			}
			before := make([]string, len(ids))
			for i, id := range ids {
				before[i] = string(c.wait(t, id, wire.StatusInputRequired).Get("inputRequests"))
			}
			g.Kill()
			g.Restart(t)
			for i, id := range ids {
				task := c.wait(t, id, wire.StatusInputRequired)
				if got := string(task.Get("inputRequests")); got != before[i] {
					t.Errorf("asked before: %s\nasked now: %s", before[i], got)
				}
				if err := c.respond(t.Context(), id, task, mcptest.Accept(fmt.Sprintf(`{"name":"Ann %d"}`, i))); err != nil {
					t.Fatal(err)
				}
			}
			for i, id := range ids {
				task := c.wait(t, id, wire.StatusCompleted)
				if want := fmt.Sprintf("Ann %d", i); !strings.Contains(string(task.Get("result")), want) {
					t.Errorf("result without %q: %s", want, task.Get("result"))
				}
			}
			server.ran(t, 3)
		})
	}
}

// A client without tasks whose gateway dies brings its answer to the next one: where
// the call can be found again that goes on with it, elsewhere it says what is known.
func TestAHeldQuestionOutlivesAKilledGateway(t *testing.T) {
	for name, tt := range map[string]struct {
		upstream, tool, want string
	}{
		"found again":     {mcptest.Everything(t, "streamableHttp").URL, "trigger-elicitation-request", "Ann"},
		"not found again": {GoSDKServer(t, false), "test_elicitation", "outcome_unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			g := Start(t, Options{Upstream: tt.upstream, Config: "lease: 2s\ntimeouts: {store: 1s}\n"})
			c := newClient(t, g.Endpoint)
			call := toolCall(tt.tool, arguments{"message": "Who?"})
			asked := resultOf(t, c.send(t, "tools/call", call, mcptest.WithCapabilities(mcptest.AllInput)))
			questions, _ := asked.Object("inputRequests")
			if len(questions) != 1 {
				t.Fatalf("asked: %s", asked.Bytes())
			}
			g.Kill()
			g.Restart(t)
			answers := wire.Object{}.With(questions[0].Name, mcptest.Accept(`{"name":"Ann","username":"Ann","email":"a@b.c"}`))
			retry := call.With("inputResponses", answers.Bytes()).With("requestState", asked.Get("requestState"))
			reply := c.send(t, "tools/call", retry, mcptest.WithCapabilities(mcptest.AllInput))
			if !strings.Contains(string(reply.Body), tt.want) {
				t.Errorf("status %d, %s", reply.Status, reply.Body)
			}
		})
	}
}

func TestATaskOfALegacyServerOutlivesAKilledGateway(t *testing.T) {
	server := count(t, mcptest.Everything(t, "streamableHttp").URL)
	g := Start(t, Options{Upstream: server.URL, Policy: promoteSoon})
	c := newClient(t, g.Endpoint)
	id := c.start(t, "simulate-research-query", arguments{"topic": "python", "ambiguous": true})
	c.wait(t, id, wire.StatusInputRequired)
	g.Kill()
	g.Restart(t)
	task := c.wait(t, id, wire.StatusInputRequired)
	if err := c.respond(t.Context(), id, task, mcptest.Accept(`{"interpretation":"snake"}`)); err != nil {
		t.Fatal(err)
	}
	task = c.wait(t, id, wire.StatusCompleted)
	if got := text(t, task.Get("result")); !strings.HasPrefix(got, "# Research Report: python (snake)") {
		t.Errorf("result: %s", got)
	}
	server.ran(t, 1)
}

// A gateway that is told to stop leaves what the next one can go on with.
func TestACallIsHandedOverAtShutDown(t *testing.T) {
	server := count(t, mcptest.Everything(t, "streamableHttp").URL)
	g := Start(t, Options{Upstream: server.URL, Policy: promoteSoon, Config: "timeouts: {drain: 500ms}\n"})
	c := newClient(t, g.Endpoint)
	id := c.start(t, longTool, lasting(8, 16))
	c.progressed(t, id)
	if code := g.Terminate(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := server.deletions.Load(); got > 1 { // the one of asking what the server is
		t.Errorf("%d sessions were ended", got)
	}
	g.Restart(t)
	task := c.wait(t, id, wire.StatusCompleted)
	if got := text(t, task.Get("result")); !strings.HasPrefix(got, "Long running operation completed") {
		t.Errorf("result: %s", got)
	}
	server.ran(t, 1)
}

// The server forgets its sessions while the gateway is down: nobody can know
// how the call ended.
func TestACallThatIsNotFoundAgainFailsHonestly(t *testing.T) {
	server := mcptest.Everything(t, "streamableHttp")
	g := Start(t, Options{Upstream: server.URL, Policy: promoteSoon})
	c := newClient(t, g.Endpoint)
	id := c.start(t, longTool, lasting(600, 600))
	c.progressed(t, id)
	g.Kill()
	server.Kill()
	server.Start()
	g.Restart(t)
	task := c.wait(t, id, wire.StatusFailed)
	if !strings.Contains(string(task.Get("error")), "outcome_unknown") {
		t.Errorf("error: %s", task.Get("error"))
	}
}
