package proxy

import (
	"context"
	"slices"
	"sync"

	"taskgate/upstream"
	"taskgate/wire"
)

// hearing is what is heard of one upstream, or of several together.
type hearing struct {
	parts   []part
	changed chan struct{} // capacity 1
	done    chan struct{} // closed by Close
	joining sync.WaitGroup
}

type part struct {
	route *route
	sub   *upstream.Subscription
}

func newHearing(parts []part) *hearing {
	a := &hearing{parts: parts, changed: make(chan struct{}, 1), done: make(chan struct{})}
	for _, p := range parts {
		a.joining.Go(func() { a.follow(p.sub) })
	}
	return a
}

// follow passes on that there is something to take.
func (a *hearing) follow(s *upstream.Subscription) {
	for {
		select {
		case <-s.Changed():
			select {
			case a.changed <- struct{}{}:
			default:
			}
		case <-a.done:
			return
		}
	}
}

// Honoured is what any of the upstreams tells about.
func (a *hearing) Honoured() (all wire.Filter) {
	for _, p := range a.parts {
		all = all.Union(p.sub.Honoured())
	}
	return all
}

// Changed receives after there is something to take.
func (a *hearing) Changed() <-chan struct{} { return a.changed }

// Take returns what was heard since the last call.
func (a *hearing) Take() (notes []upstream.Notification) {
	for _, p := range a.parts {
		for _, n := range p.sub.Take() {
			p.route.tools.note(n.Method)
			notes = append(notes, n)
		}
	}
	return notes
}

// Close ends the subscriptions.
func (a *hearing) Close() {
	close(a.done)
	a.joining.Wait()
	for _, p := range a.parts {
		p.sub.Close()
	}
}

// hearAll listens to each member that the caller may use, for the resources that it
// lists.
func (h *Handler) hearAll(ctx context.Context, x *exchange, want wire.Filter) []part {
	uris := map[*route][]string{}
	for _, uri := range want.URIs {
		if member, err := h.memberOf(ctx, x, uri); err == nil {
			uris[member] = append(uris[member], uri)
		}
	}
	parts := make([]part, len(x.route.joined.members))
	var wg sync.WaitGroup
	for i, member := range x.route.joined.members {
		if x.identity.Require(member.Resource.Scopes...) != nil {
			continue
		}
		wg.Go(func() {
			its := want
			its.URIs = slices.Clone(uris[member])
			sub := x.as(member, x.msg.Method)
			parts[i] = part{member, h.hearOne(sub.onBehalf(ctx), sub, its)}
		})
	}
	wg.Wait()
	return parts
}
