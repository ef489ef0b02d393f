package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"taskgate/upstream"
	"taskgate/wire"
)

// maxToolName is the longest name that a tool should have (server/tools#tool-names).
const maxToolName = 64

// listing is a method that lists, and the member of its result that is the list.
type listing struct {
	method, items string
	area          string // the capability of servers that know it
	key           string // what an item is called by
	named         bool   // by a name, which gets the prefix
}

var listings = [...]listing{
	{"tools/list", "tools", "tools", "name", true},
	{"prompts/list", "prompts", "prompts", "name", true},
	{"resources/list", "resources", "resources", "uri", false},
	{"resources/templates/list", "resourceTemplates", "resources", "uriTemplate", false},
}

// listJoined answers a request for a list with those of all members, on one page.
func (h *Handler) listJoined(ctx context.Context, x *exchange, l listing) (wire.Raw, error) {
	items, jobs := []wire.Raw{}, false
	for i, list := range h.gather(ctx, x, l) {
		member := x.route.joined.members[i]
		if l.method == "tools/list" && !x.hasTasks() && h.withoutSchemas(member, list) {
			jobs = true
		}
		for _, raw := range list {
			if item, err := l.item(member, raw); err != nil {
				h.opts.Log.Warn("a listed item is left out", zap.String("upstream", member.Name), zap.Error(err))
			} else {
				items = append(items, item)
			}
		}
	}
	if jobs {
		items = append(items, jobDefinitions(x.route.JobPrefix)...)
	}
	return wire.ModernResult(l.method, wire.Object{}.With(l.items, wire.JoinArray(items)).Bytes(), nil)
}

// item is an item of a member as the endpoint shows it.
func (l listing) item(member *route, raw wire.Raw) (wire.Raw, error) {
	item, err := wire.ParseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.method, err)
	}
	if !l.named {
		return raw, nil
	}
	name, _ := wire.String(item.Get(l.key))
	full := member.Name + separator + name
	if len(full) > maxToolName {
		return nil, fmt.Errorf("%s: %q has %d characters, the limit is %d; give the upstream a shorter name", l.method, full, len(full), maxToolName)
	}
	return item.With(l.key, wire.Quote(full)).Bytes(), nil
}

// gather lists of each member what the caller may see there. Who does not answer in
// time is left out: the others are of use all the same.
func (h *Handler) gather(ctx context.Context, x *exchange, l listing) [][]wire.Raw {
	ctx, cancel := context.WithTimeout(ctx, h.opts.InfoWait)
	defer cancel()
	all := make([][]wire.Raw, len(x.route.joined.members))
	var wg sync.WaitGroup
	for i, member := range x.route.joined.members {
		if x.identity.Require(member.Resource.Scopes...) != nil {
			continue
		}
		wg.Go(func() {
			var err error
			if all[i], err = h.listAll(ctx, x.as(member, l.method), l); err != nil {
				h.metrics.missing.WithLabelValues(member.Name).Inc()
				h.opts.Log.Warn("upstream is missing in a list of several", zap.String("upstream", member.Name), zap.String("method", l.method), upstream.LogError(err))
			}
		})
	}
	wg.Wait()
	return all
}

// maxPages limits how far a list is followed.
const maxPages = 100

// listAll reads all pages of a list.
func (h *Handler) listAll(ctx context.Context, x *exchange, l listing) (items []wire.Raw, err error) {
	if _, offered := capabilities(x.route.info.get(ctx)).Object(l.area); !offered {
		return nil, nil
	}
	for range maxPages {
		reply, err := h.send(x.onBehalf(ctx), x, relay{func(string, wire.Raw) {}})
		if err != nil {
			return items, err
		}
		if reply.Error != nil {
			return items, &upstreamFailure{reply.Error}
		}
		if l.method == "tools/list" {
			x.route.tools.learn(x.params.Get("cursor"), reply.Result)
		}
		result, err := response(l.method, reply)
		if err != nil {
			return items, err
		}
		page, _ := wire.ParseObject(result) // it is one: it was made
		list, err := wire.ParseArray(page.Get(l.items))
		if err != nil {
			return items, fmt.Errorf("%s: %w", l.method, err)
		}
		items = append(items, list...)
		if _, more := wire.String(page.Get("nextCursor")); !more {
			return items, nil
		}
		x.params = wire.Object{}.With("cursor", page.Get("nextCursor"))
	}
	return items, errors.New("the list has too many pages")
}
