package proxy

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"taskgate/upstream"
	"taskgate/wire"
)

func (h *Handler) readFilter(x *exchange) (wire.Filter, error) {
	f, rpc := wire.ParseFilter(x.params.Get("notifications"))
	if rpc != nil {
		return f, rpc
	}
	if f.TaskIDs != nil && !x.meta.Capabilities.DeclaresTasks() {
		return f, wire.MissingCapability(wire.TasksRequired)
	}
	for member, list := range map[string][]string{"taskIds": f.TaskIDs, "resourceSubscriptions": f.URIs} {
		if len(list) > h.opts.MaxTaskIDs {
			return f, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.notifications.%s has %d entries; the limit is %d", member, len(list), h.opts.MaxTaskIDs)
		}
	}
	return f, nil
}

// hear listens to the upstream, or to all of several; nil when there is nothing to
// hear.
func (h *Handler) hear(ctx context.Context, x *exchange, want wire.Filter) *hearing {
	var parts []part
	if x.route.joined == nil {
		parts = []part{{route: x.route, sub: h.hearOne(ctx, x, want)}}
	} else {
		parts = h.hearAll(ctx, x, want)
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.sub == nil })
	if len(parts) == 0 {
		return nil
	}
	return newHearing(parts)
}

// hearOne is nil when the upstream cannot be listened to, or when there is nothing
// to hear.
func (h *Handler) hearOne(ctx context.Context, x *exchange, want wire.Filter) *upstream.Subscription {
	if want.IsEmpty() {
		return nil
	}
	known := want.Offered(capabilities(x.route.info.get(ctx)).Bytes())
	ctx, cancel := context.WithTimeout(ctx, h.opts.InfoWait)
	defer cancel()
	s, err := x.route.Caller.Listen(ctx, upstream.ListenRequest{
		Want: want, Assume: known, Room: h.opts.BufferBytes, ClientInfo: x.meta.ClientInfo, Capabilities: x.meta.Capabilities,
		Principal: x.owner().String(), Header: x.keptHeaders(),
	})
	if err != nil {
		h.opts.Log.Warn("upstream is not listened to", zap.String("upstream", x.route.Name), upstream.LogError(err))
		return nil
	}
	return s
}
