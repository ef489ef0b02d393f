package proxy

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"taskgate/upstream"
	"taskgate/wire"
)

// route is an endpoint and what is known of its upstream.
type route struct {
	Endpoint
	info   *infoCache
	tools  *toolbox
	joined *joined // nil: it is an endpoint of one upstream
}

func newRoute(e Endpoint, o Options) *route {
	return &route{Endpoint: e, info: &infoCache{
		endpoint: e, ttl: o.InfoTTL, wait: o.InfoWait, now: o.Now, log: o.Log,
	}, tools: newToolbox(o)}
}

// infoCache keeps what an upstream last said of itself. server/discover is
// answered from it, also while the upstream is down: an error, or silence,
// on that probe makes clients give the whole endpoint up.
type infoCache struct {
	endpoint Endpoint
	ttl      time.Duration
	wait     time.Duration
	now      func() time.Time
	log      *zap.Logger

	mu       sync.Mutex
	info     upstream.Info
	fetched  time.Time     // zero: never
	tried    time.Time     // when it was last asked
	fetching chan struct{} // closed when the question under way is over; nil: none is
}

// unknown is assumed of an upstream that has never been reached.
var unknown = upstream.Info{Capabilities: wire.Raw(`{"tools":{}}`)}

func (c *infoCache) get(ctx context.Context) upstream.Info {
	if info, age, known := c.latest(); known {
		if age >= c.ttl {
			c.refresh(context.WithoutCancel(ctx))
		}
		return info
	}
	select {
	case <-c.refresh(context.WithoutCancel(ctx)):
	case <-time.After(c.wait):
	case <-ctx.Done():
	}
	if info, _, known := c.latest(); known {
		return info
	}
	return unknown
}

func (c *infoCache) latest() (info upstream.Info, age time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info, c.now().Sub(c.fetched), !c.fetched.IsZero()
}

// refresh asks the upstream, unless that was done just now. The channel is
// closed when there is no more to wait for.
func (c *infoCache) refresh(ctx context.Context) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fetching != nil {
		return c.fetching
	}
	done := make(chan struct{})
	if c.now().Sub(c.tried) < c.wait {
		close(done)
		return done
	}
	c.tried, c.fetching = c.now(), done
	go c.fetch(ctx)
	return done
}

func (c *infoCache) fetch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.ttl)
	defer cancel()
	info, err := c.endpoint.Caller.Info(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.fetching)
	c.fetching = nil
	if err != nil {
		c.log.Warn("upstream does not say what it is; the last answer is kept", zap.String("upstream", c.endpoint.Name), upstream.LogError(err))
		return
	}
	c.info, c.fetched = info, c.now()
}

// discover is server/discover: the upstream's capabilities less the tasks of
// 2025-11-25, plus the extension, whose settings are exactly {}.
func (h *Handler) discover(ctx context.Context, x *exchange, _ *responder) (wire.Raw, error) {
	info := x.route.describe(ctx)
	result := wire.Object{}.
		With("supportedVersions", wire.Raw(`["`+wire.Version+`"]`)).
		With("capabilities", withTasks(capabilities(info)).Bytes())
	if info.Instructions != nil {
		result = result.With("instructions", info.Instructions)
	}
	return wire.ModernResult("server/discover", result.Bytes(), serverInfo(info))
}

// capabilities are the upstream's, less the changes that nobody can hear of.
func capabilities(info upstream.Info) wire.Object {
	caps, err := wire.ParseObject(info.Capabilities)
	if err != nil {
		caps, _ = wire.ParseObject(unknown.Capabilities)
	}
	if !info.Deaf {
		return caps
	}
	for _, area := range []string{"tools", "prompts", "resources"} {
		if o, ok := caps.Object(area); ok {
			caps = caps.With(area, o.Without("listChanged", "subscribe").Bytes())
		}
	}
	return caps
}

func withTasks(caps wire.Object) wire.Object {
	ext, _ := wire.ParseObject(caps.Get("extensions"))
	ext = ext.With(wire.TasksExtension, wire.Raw(`{}`))
	return caps.Without("tasks").With("extensions", ext.Bytes())
}

func serverInfo(info upstream.Info) wire.Raw {
	if info.ServerInfo != nil {
		return info.ServerInfo
	}
	return wire.Raw(`{"name":"taskgate","version":"unknown"}`)
}
