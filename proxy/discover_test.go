package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskgate/internal/bubble"
	"taskgate/upstream"
	"taskgate/wire"
)

var everythingInfo = upstream.Info{
	Capabilities: wire.Raw(`{"tools":{"listChanged":true},"tasks":{"list":{}},"extensions":{"other":{"x":1},"io.modelcontextprotocol/tasks":{"y":2}},"z":9007199254740993}`),
	ServerInfo:   wire.Raw(`{"name":"everything","version":"1"}`), Instructions: wire.Raw(`"be \u00e9"`),
}

func TestDiscover(t *testing.T) {
	g := newGateway(t, func(s *setup) {
		s.up.info = func(context.Context) (upstream.Info, error) { return everythingInfo, nil }
	})
	r := g.ok(g.client("ann").Call(t.Context(), "server/discover", wire.Raw(`{}`)))
	check(t, "status", r.Status, 200)
	check(t, "result", string(r.Message.Result), `{"supportedVersions":["2026-07-28"],`+
		`"capabilities":{"tools":{"listChanged":true},"extensions":{"other":{"x":1},"io.modelcontextprotocol/tasks":{}},"z":9007199254740993},`+
		`"instructions":"be \u00e9","resultType":"complete","ttlMs":0,"cacheScope":"private",`+
		`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"everything","version":"1"}}}`)
}

// The upstream's moods, one after the other: what it last said holds on.
func TestDiscoverWhileTheUpstreamIsDown(t *testing.T) {
	var down atomic.Bool
	var asked atomic.Int64
	inBubble(t, func(t *testing.T, g *gateway) {
		discover := func() (capabilities string, took time.Duration) {
			began := time.Now()
			r := g.ok(g.client("ann").Call(t.Context(), "server/discover", wire.Raw(`{}`)))
			check(t, "status", r.Status, 200)
			took = time.Since(began)
			synctest.Wait()
			return string(r.Result().Get("capabilities")), took
		}
		const known = `{"tools":{"listChanged":true},"extensions":{"other":{"x":1},"io.modelcontextprotocol/tasks":{}},"z":9007199254740993}`
		const unknown = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		steps := []struct {
			wait  time.Duration // before
			down  bool
			want  string
			asked int64 // in all, afterwards
		}{
			{0, true, unknown, 1},
			{time.Second, true, unknown, 1}, // not again so soon
			{time.Second, false, known, 2},
			{time.Minute, true, known, 2},
			{5 * time.Minute, true, known, 3}, // stale
			{time.Minute, true, known, 4},
			{time.Minute, false, known, 5},
			{time.Minute, false, known, 5}, // fresh again
		}
		for i, s := range steps {
			bubble.Advance(s.wait)
			down.Store(s.down)
			got, took := discover()
			check(t, "capabilities", got, s.want)
			check(t, "it took", took, 0)
			if asked.Load() != s.asked {
				t.Errorf("step %d: the upstream was asked %d times, want %d", i, asked.Load(), s.asked)
			}
		}
	}, func(s *setup) {
		s.up.info = func(context.Context) (upstream.Info, error) {
			asked.Add(1)
			if down.Load() {
				return upstream.Info{}, errors.New("down")
			}
			return everythingInfo, nil
		}
	})
}

func TestDiscoverWhileTheUpstreamHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		began := time.Now()
		r := g.ok(g.client("ann").Call(t.Context(), "server/discover", wire.Raw(`{}`)))
		check(t, "status", r.Status, 200)
		check(t, "it took", time.Since(began), 2*time.Second)
		bubble.Advance(5 * time.Minute) // then the question is given up
	}, func(s *setup) {
		s.up.info = func(ctx context.Context) (upstream.Info, error) {
			<-ctx.Done()
			return upstream.Info{}, ctx.Err()
		}
	})
}
