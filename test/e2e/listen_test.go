package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// subscription is an open subscriptions/listen stream and what came on it.
type subscription struct {
	mu   sync.Mutex
	seen []wire.Message
}

// listen opens a stream that lasts until the test ends, and waits for its
// acknowledgement.
func (c client) listen(t testing.TB, filter string) *subscription {
	t.Helper()
	s := &subscription{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		params := wire.Object{}.With("notifications", wire.Raw(filter)).Bytes()
		_, _ = c.Call(ctx, "subscriptions/listen", params, mcptest.WithID(wire.Raw(`"sub"`)), mcptest.OnNotification(s.take))
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	Eventually(t, "the subscription is acknowledged", func() bool { return len(s.heard()) > 0 })
	return s
}

func (s *subscription) take(m wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, m)
}

func (s *subscription) heard() []wire.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// acknowledged is the filter that the first message honours.
func (s *subscription) acknowledged(t testing.TB) string {
	t.Helper()
	first := s.heard()[0]
	params, err := first.ParamsObject()
	if err != nil || first.Method != wire.NoteAcknowledged {
		t.Fatalf("the first message is %s", first.Bytes())
	}
	return string(params.Get("notifications"))
}

// wait waits for a notification, and checks that all carry the subscription's id.
func (s *subscription) wait(t testing.TB, method, uri string) {
	t.Helper()
	Eventually(t, method, func() bool {
		return slices.ContainsFunc(s.heard(), func(m wire.Message) bool { return m.Method == method && wire.UpdatedURI(m.Params) == uri })
	})
	for _, m := range s.heard() {
		if !strings.Contains(string(m.Params), `"io.modelcontextprotocol/subscriptionId":"sub"`) {
			t.Errorf("without the subscription's id: %s", m.Bytes())
		}
	}
}

const watchedResource = "demo://resource/dynamic/text/1"

func TestResourceUpdatesOfALegacyServerAreHeard(t *testing.T) {
	c := newClient(t, Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL}).Endpoint)
	s := c.listen(t, `{"promptsListChanged":true,"resourceSubscriptions":["`+watchedResource+`"],"somethingNew":true}`)
	if got, want := s.acknowledged(t), `{"promptsListChanged":true,"resourceSubscriptions":["`+watchedResource+`"]}`; got != want {
		t.Errorf("acknowledged %s, want %s", got, want)
	}
	resultOf(t, c.call(t, "toggle-subscriber-updates", arguments{}))
	s.wait(t, wire.NoteResource, watchedResource)
}

func TestAChangedListAndATaskAreHeardOnOneStream(t *testing.T) {
	for name, stateless := range map[string]bool{"modern": true, "legacy": false} {
		t.Run(name, func(t *testing.T) {
			g := Start(t, Options{Upstream: GoSDKServer(t, stateless), Policy: "defaults: {promoteAfter: 0s}\n"})
			c := newClient(t, g.Endpoint)
			id := c.start(t, "test_simple_text", arguments{})
			s := c.listen(t, `{"toolsListChanged":true,"taskIds":["`+id+`"]}`)
			if got, want := s.acknowledged(t), `{"toolsListChanged":true,"taskIds":["`+id+`"]}`; got != want {
				t.Errorf("acknowledged %s, want %s", got, want)
			}
			s.wait(t, "notifications/tasks", "")
			c.wait(t, c.start(t, "test_trigger_tool_change", arguments{}), wire.StatusCompleted)
			s.wait(t, wire.NoteTools, "")
		})
	}
}

func TestAnUpstreamThatComesBackIsHeardAgain(t *testing.T) {
	server := mcptest.Everything(t, "streamableHttp")
	c := newClient(t, Start(t, Options{Upstream: server.URL}).Endpoint)
	resultOf(t, c.call(t, "echo", arguments{"message": "hello"}))
	s := c.listen(t, `{"promptsListChanged":true}`)
	server.Kill()
	server.Start()
	s.wait(t, wire.NotePrompts, "") // it may have changed meanwhile
}

func TestTheTypeScriptClientListensToATask(t *testing.T) {
	g := Start(t, Options{Upstream: mcptest.Everything(t, "streamableHttp").URL, Policy: promoteSoon})
	id := newClient(t, g.Endpoint).start(t, longTool, lasting(6, 3))
	var seen struct {
		Era      string
		Statuses []string
		Closed   string
	}
	parse(t, runDriver(t, "tslisten.mjs", g.Endpoint, id), &seen)
	if seen.Era != "modern" || seen.Closed != "graceful" {
		t.Errorf("seen: %+v", seen)
	}
	if n := len(seen.Statuses); n < 2 || seen.Statuses[0] != wire.StatusWorking || seen.Statuses[n-1] != wire.StatusCompleted {
		t.Errorf("statuses: %v", seen.Statuses)
	}
}
