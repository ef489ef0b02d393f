package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"taskgate/internal/bubble"
	"taskgate/internal/mcptest"
	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

const tellsAll = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`

// listenTo lets the gateway listen through a real connector to the server at url.
func listenTo(t *testing.T, url string) func(*setup) {
	t.Helper()
	h, err := upstream.NewHTTP(upstream.Options{Name: "up", URL: url, Retry: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return func(s *setup) { s.up.hear, s.up.info = h.Listen, h.Info }
}

// heard is what comes on an open subscriptions/listen stream.
type heard struct {
	t    *testing.T
	done chan struct{}

	mu    sync.Mutex
	notes []string
	reply mcptest.Reply
}

// listen opens a stream with the id 7 until the test ends.
func (g *gateway) listen(caller, filter string) *heard {
	ctx, cancel := context.WithCancel(context.Background())
	h := &heard{t: g.t, done: make(chan struct{})}
	c := g.client(caller)
	go func() {
		defer close(h.done)
		params := wire.Object{}.With("notifications", wire.Raw(filter)).Bytes()
		reply, _ := c.Call(ctx, "subscriptions/listen", params, mcptest.WithID(wire.Raw(`7`)), mcptest.OnNotification(h.take))
		h.mu.Lock()
		defer h.mu.Unlock()
		h.reply = reply
	}()
	g.t.Cleanup(func() {
		cancel()
		<-h.done
	})
	return h
}

func (h *heard) take(m wire.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, strings.TrimPrefix(m.Method, "notifications/")+" "+string(m.Params))
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.notes)
}

// nth waits for the nth notification, counted from 1.
func (h *heard) nth(n int) string {
	h.t.Helper()
	mcptest.Eventually(h.t, deadline, fmt.Sprintf("notification %d, after %q", n, h.all()), func() bool { return len(h.all()) >= n })
	return h.all()[n-1]
}

const tag = `"_meta":{"io.modelcontextprotocol/subscriptionId":7}`

func TestListeningToTasksAndToTheUpstream(t *testing.T) {
	u := mcptest.NewModern()
	u.Capabilities = wire.Raw(tellsAll)
	g := newGateway(t, listenTo(t, u.Start(t)), func(s *setup) { s.decision.PromoteAfter, s.up.call = 0, waits })
	ann, bob := g.ok(g.client("ann").CallTool(t.Context(), "x", `{}`)).TaskID(), g.ok(g.client("bob").CallTool(t.Context(), "x", `{}`)).TaskID()

	h := g.listen("ann", `{"taskIds":["`+ann+`","`+bob+`"],"toolsListChanged":true,"resourceSubscriptions":["file:///a"],"new":true}`)
	check(t, "first", h.nth(1), `subscriptions/acknowledged {`+tag+`,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"],"taskIds":["`+ann+`"]}}`)
	if second := h.nth(2); !strings.HasPrefix(second, `tasks {`+tag+`,"taskId":"`+ann+`","status":"working"`) {
		t.Errorf("second: %s", second)
	}
	u.Broadcast(wire.Message{Method: wire.NotePrompts})
	u.Broadcast(wire.Message{Method: wire.NoteResource, Params: wire.Raw(`{"uri":"file:///a","_meta":{"their":9007199254740993}}`)})
	check(t, "third", h.nth(3), `resources/updated {"uri":"file:///a","_meta":{"their":9007199254740993,"io.modelcontextprotocol/subscriptionId":7}}`)

	g.CloseStreams()
	<-h.done
	check(t, "end", string(h.reply.Message.Result), `{"resultType":"complete",`+tag+`}`)
}

func TestOneStreamFollowsManyTasks(t *testing.T) {
	ends := make([]chan struct{}, 10)
	for i := range ends {
		ends[i] = make(chan struct{})
	}
	g := newGateway(t, func(s *setup) {
		s.decision.PromoteAfter = 0
		s.up.call = func(_ context.Context, r upstream.Request, _ upstream.Handler) (upstream.Reply, error) {
			n, _ := strconv.Atoi(string(r.Params.Get("arguments")))
			<-ends[n]
			return result(`{"content":[]}`), nil
		}
	})
	var ids []string
	for n := range ends {
		ids = append(ids, g.ok(g.client("ann").CallTool(t.Context(), "x", strconv.Itoa(n))).TaskID())
	}
	h := g.listen("ann", `{"taskIds":["`+strings.Join(ids, `","`)+`"]}`)
	h.nth(1 + len(ids))
	for i := range ends {
		n := (7*i + 3) % len(ends)
		close(ends[n])
		note := h.nth(1 + len(ids) + i + 1)
		state := g.ok(g.client("ann").Task(t.Context(), ids[n])).Result().Without("resultType").Bytes()
		check(t, "told as tasks/get tells it", note, `tasks {`+tag+`,`+string(state[1:]))
	}
	<-h.done
	check(t, "end", string(h.reply.Message.Result), `{"resultType":"complete",`+tag+`}`)
	check(t, "notifications", len(h.all()), 1+2*len(ids))
}

func TestASilentStreamIsKeptAlive(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		id := g.ok(g.client("ann").CallTool(t.Context(), "x", `{}`)).TaskID()
		ctx, cancel := context.WithTimeout(t.Context(), 61*time.Second)
		defer cancel()
		r, err := g.client("ann").Call(ctx, "subscriptions/listen", wire.Raw(`{"notifications":{"taskIds":["`+id+`"]}}`))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the stream has ended: %v", err)
		}
		check(t, "comments in 61 s", strings.Count(string(r.Body), ": keep-alive\n\n"), 4)
		check(t, "notifications", len(r.Notifications), 2)
	}, func(s *setup) { s.decision.PromoteAfter, s.up.call = 0, waits })
}

func TestAChangedListOfToolsIsAskedForAnew(t *testing.T) {
	u := mcptest.NewLegacy()
	u.Capabilities = wire.Raw(tellsAll)
	var mu sync.Mutex
	lists := 0
	g := newGateway(t, listenTo(t, u.Start(t)), func(s *setup) {
		s.up.list = func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
			mu.Lock()
			defer mu.Unlock()
			lists++
			return result(`{"tools":[{"name":"x"}]}`), nil
		}
	})
	c := g.client("ann")
	listed := func() int {
		g.ok(c.CallTool(t.Context(), "x", `{}`))
		mu.Lock()
		defer mu.Unlock()
		return lists
	}
	mcptest.Eventually(t, deadline, "the tools are known", func() bool { return listed() == 1 })
	h := g.listen("ann", `{"toolsListChanged":true}`)
	h.nth(1)
	mcptest.Eventually(t, deadline, "a stream", func() bool { return u.Listening() == 1 })
	u.Broadcast(wire.Message{Method: wire.NoteTools})
	check(t, "told", h.nth(2), `tools/list_changed {`+tag+`}`)
	mcptest.Eventually(t, deadline, "the tools are asked for again", func() bool { return listed() == 2 })
}

// What the upstream said of itself before is believed until it is back.
func TestListeningToAnUpstreamThatIsDown(t *testing.T) {
	u := mcptest.NewModern()
	u.Capabilities = wire.Raw(tellsAll)
	u.Fail("subscriptions/listen", 1, mcptest.Respond(http.StatusBadGateway, "text/plain", "down"))
	g := newGateway(t, listenTo(t, u.Start(t)))
	h := g.listen("ann", `{"promptsListChanged":true}`)
	check(t, "acknowledged", h.nth(1), `subscriptions/acknowledged {`+tag+`,"notifications":{"promptsListChanged":true}}`)
	check(t, "look again", h.nth(2), `prompts/list_changed {`+tag+`}`)
}

func TestListeningToWhatTellsNothing(t *testing.T) {
	g := newGateway(t, func(s *setup) {
		s.up.info = func(context.Context) (upstream.Info, error) {
			return upstream.Info{Capabilities: wire.Raw(tellsAll), Deaf: true}, nil
		}
	})
	h := g.listen("ann", `{"toolsListChanged":true}`)
	check(t, "acknowledged", h.nth(1), `subscriptions/acknowledged {`+tag+`,"notifications":{}}`)
	mcptest.Eventually(t, deadline, "discover says so too", func() bool {
		caps, _ := g.ok(g.client("ann").Call(t.Context(), "server/discover", nil)).Result().Object("capabilities")
		return string(caps.Without("extensions").Bytes()) == `{"tools":{},"prompts":{},"resources":{}}`
	})
	select {
	case <-h.done:
		t.Error("the stream was closed, though something was asked for")
	default:
	}
}

func TestFiltersThatAreRefused(t *testing.T) {
	g := newGateway(t)
	eleven := `["` + strings.Join(strings.Split("abcdefghijk", ""), `","`) + `"]`
	for filter, want := range map[string]string{
		`[]`:                         "params.notifications is missing or no object",
		`{"toolsListChanged":1}`:     "params.notifications.toolsListChanged is of another type",
		`{"taskIds":[1]}`:            "params.notifications.taskIds is of another type",
		`{"taskIds":` + eleven + `}`: "params.notifications.taskIds has 11 entries; the limit is 10",
		`{"resourceSubscriptions":` + eleven + `}`: "params.notifications.resourceSubscriptions has 11 entries; the limit is 10",
	} {
		r := g.ok(g.client("ann").Call(t.Context(), "subscriptions/listen", wire.Raw(`{"notifications":`+filter+`}`)))
		if e := r.Err(); e == nil || e.Code != wire.CodeInvalidParams || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %s", filter, r.Body)
		}
	}
	r := g.ok(g.client("ann").Call(t.Context(), "subscriptions/listen", wire.Raw(`{"notifications":{"taskIds":[]}}`),
		mcptest.WithCapabilities(`{}`)))
	check(t, "without the extension", r.Err().Code, wire.CodeMissingCapability)
	r = g.ok(g.client("ann").Call(t.Context(), "subscriptions/listen", wire.Raw(`{"notifications":{}}`)))
	check(t, "who asks for nothing is told all of it", string(r.Message.Result), `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}`)
}

// TestChangesWithoutHints: another replica's change is told within a recheck, and
// so is the end of a task's time; nothing that is as it was is read for that.
func TestChangesWithoutHints(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		other, err := taskroute.NewStore(g.backend, taskroute.Options{Now: time.Now, Tombstone: time.Hour, CacheSize: 16})
		if err != nil {
			t.Fatal(err)
		}
		task := func() string { return g.ok(g.client("ann").CallTool(t.Context(), "x", `{}`)).TaskID() }
		changing, still := task(), task()
		h := g.listen("ann", `{"taskIds":["`+changing+`","`+still+`"]}`)
		h.nth(3)
		bubble.Advance(20 * time.Second)
		reads := g.backend.reads.Load()
		bubble.Advance(20 * time.Second)
		check(t, "reads of tasks that are as they were", g.backend.reads.Load()-reads, 0)
		if _, err := other.UpdateAny(t.Context(), changing, func(r *taskroute.Record) error { return r.Progress("half", time.Now()) }); err != nil {
			t.Fatal(err)
		}
		bubble.Advance(5 * time.Second)
		if note := h.nth(4); !strings.Contains(note, `"taskId":"`+changing+`"`) || !strings.Contains(note, `"statusMessage":"half"`) {
			t.Errorf("told: %s", note)
		}
		bubble.Advance(time.Minute)
		select {
		case <-h.done:
			check(t, "notifications", len(h.all()), 4)
		default:
			t.Error("the stream goes on though the time of its tasks is over")
		}
	}, func(s *setup) {
		s.decision.PromoteAfter, s.decision.TTL = 0, time.Minute
		s.up.call = waits
	})
}
