package faults

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// maxWork is the longest that a tool works.
const maxWork = 1500 * time.Millisecond

// tools put down what they do. "slow" works for argument "ms", "again" too and
// may be run again, "ask" asks first.
func tools(h *History) []mcptest.Tool {
	return []mcptest.Tool{
		{Name: "slow", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) { return work(h, c) }},
		{Name: "again", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) { return work(h, c) }},
		{Name: "ask", Run: func(c *mcptest.Call) (wire.Raw, *wire.Error) {
			answers, err := c.Ask(mcptest.Elicit("answer", "Which?"))
			if err != nil {
				return nil, err
			}
			h.Add(Event{Kind: Heard, Call: keyOf(c), Body: string(answers["answer"])})
			return work(h, c)
		}},
	}
}

func keyOf(c *mcptest.Call) string {
	key, _ := wire.String(c.Arguments.Get("key"))
	return key
}

// work ends with a result that no other run has, and whose bytes would not
// survive being read and written again.
func work(h *History, c *mcptest.Call) (wire.Raw, *wire.Error) {
	key := keyOf(c)
	h.Add(Event{Kind: Ran, Call: key})
	var ms int
	_, _ = fmt.Sscan(string(c.Arguments.Get("ms")), &ms) // none: no work
	if !c.Sleep(time.Duration(ms) * time.Millisecond) {
		h.Add(Event{Kind: Stopped, Call: key})
		return nil, wire.Errorf(wire.CodeInternal, "stopped")
	}
	content := fmt.Sprintf(`[{"type":"text","text":"%s \u00e9 %s"}]`, key, rand.Text())
	structured := `{"z":12345678901234567890,"a":1.50,"\u00fc":[ ]}`
	h.Add(Event{Kind: Returned, Call: key, Body: content + structured})
	return wire.Raw(`{"content":` + content + `,"structuredContent":` + structured + `}`), nil
}

// payload is what of a result must be as the upstream sent it.
func payload(result wire.Object) string {
	return string(result.Get("content")) + string(result.Get("structuredContent"))
}

// server is an upstream that can be started again.
type server struct {
	url  string
	make func() *mcptest.Upstream

	live *mcptest.Upstream
	stop func()
}

func startServer(t *testing.T, make func() *mcptest.Upstream) *server {
	t.Helper()
	s := &server{make: make}
	s.start(t, "127.0.0.1:0")
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *server) start(t *testing.T, addr string) {
	t.Helper()
	s.live = s.make()
	var err error
	if s.url, s.stop, err = s.live.Listen(addr); err != nil {
		t.Fatalf("start an upstream: %v", err)
	}
}
