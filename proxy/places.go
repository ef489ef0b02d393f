package proxy

import (
	"context"
	"strings"
	"sync"
	"time"

	"taskgate/wire"
)

// places say which member of a joined endpoint has a resource.
type places struct {
	mu        sync.Mutex
	resources map[string]*route // by URI
	templates map[string]*route // by what comes before the first variable
	asked     time.Time
}

// memberOf is the member that lists the resource, or a template of it.
func (h *Handler) memberOf(ctx context.Context, x *exchange, uri string) (*route, error) {
	p := &x.route.joined.places
	member, stale := p.find(uri, h.opts.Now(), h.opts.InfoWait)
	if member == nil && stale {
		for _, l := range listings {
			if !l.named {
				p.learn(x.route.joined.members, h.gather(ctx, x, l), l)
			}
		}
		member, _ = p.find(uri, h.opts.Now(), h.opts.InfoWait)
	}
	if member == nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "Resource not found: no server of this endpoint lists it").WithData(map[string]string{"uri": uri})
	}
	return member, nil
}

// find also tells whether it is worth while to ask again.
func (p *places) find(uri string, now time.Time, least time.Duration) (member *route, stale bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if member = p.resources[uri]; member != nil {
		return member, false
	}
	longest := 0
	for prefix, r := range p.templates {
		if strings.HasPrefix(uri, prefix) && len(prefix) >= longest {
			member, longest = r, len(prefix)
		}
	}
	if stale = member == nil && now.Sub(p.asked) >= least; stale {
		p.asked = now
	}
	return member, stale
}

// learn takes lists of the members in. Of two that list the same, the first has it.
func (p *places) learn(members []*route, lists [][]wire.Raw, l listing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[string]*route{}
	for i, list := range lists {
		for _, raw := range list {
			item, _ := wire.ParseObject(raw)
			at, _ := wire.String(item.Get(l.key))
			at, _, _ = strings.Cut(at, "{")
			if found[at] == nil && len(found) < maxTools {
				found[at] = members[i]
			}
		}
	}
	if l.key == "uri" {
		p.resources = found
	} else {
		p.templates = found
	}
}
