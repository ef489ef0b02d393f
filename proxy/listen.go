package proxy

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"taskgate/taskroute"
	"taskgate/wire"
)

// subscription is one open subscriptions/listen stream.
type subscription struct {
	h     *Handler
	x     *exchange
	out   *responder
	watch *taskroute.Watcher
	sent  map[string]uint64 // by id of a task that has not ended: the revision the client has
	more  bool              // there is more to hear of than tasks
}

// listen is subscriptions/listen (basic/patterns/subscriptions) with the
// taskIds of SEP-2663. The stream begins with the acknowledgement and the state
// of every task, so that no change between a task's creation and this request
// is missed; it ends when all that was asked for has ended.
func (h *Handler) listen(ctx context.Context, x *exchange, out *responder) (wire.Raw, error) {
	filter, err := h.readFilter(x)
	if err != nil {
		return nil, err
	}
	if !out.canStream {
		return nil, refuse(http.StatusNotAcceptable, wire.CodeInvalidRequest, "Not acceptable: subscriptions/listen answers with a stream; Accept must name text/event-stream")
	}
	if h.streams.Add(1); h.streams.Load() > int64(h.opts.MaxStreams) {
		h.streams.Add(-1)
		return nil, &refusal{http.StatusTooManyRequests, wire.Errorf(wire.CodeInternal, "Too many open streams: the limit is %d", h.opts.MaxStreams).
			WithData(map[string]any{"reason": "too_many_streams", "retriable": true, "limit": h.opts.MaxStreams})}
	}
	defer h.streams.Add(-1)
	s := &subscription{h: h, x: x, out: out, watch: h.runner.Watch(filter.taskIDs...), sent: map[string]uint64{}, more: filter.others}
	defer s.watch.Stop()
	if err := s.open(ctx, filter); err != nil {
		return nil, err
	}
	return s.result(), s.run(ctx)
}

// filter is what a client wants to hear of.
type filter struct {
	taskIDs []string
	others  bool // anything but tasks
}

func (h *Handler) readFilter(x *exchange) (filter, error) {
	o, err := wire.ParseObject(x.params.Get("notifications"))
	if err != nil {
		return filter{}, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.notifications is missing or no object")
	}
	f := filter{others: len(o.Without("taskIds")) > 0}
	raw := o.Get("taskIds")
	if raw == nil {
		return f, nil
	}
	if !x.meta.Capabilities.DeclaresTasks() {
		return f, wire.MissingCapability(wire.TasksRequired)
	}
	f.taskIDs, err = readIDs(raw)
	if err != nil {
		return f, err
	}
	if len(f.taskIDs) > h.opts.MaxTaskIDs {
		return f, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.notifications.taskIds has %d ids; the limit is %d", len(f.taskIDs), h.opts.MaxTaskIDs)
	}
	return f, nil
}

func readIDs(raw wire.Raw) ([]string, error) {
	list, err := wire.ParseArray(raw)
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.notifications.taskIds must be an array")
	}
	ids := make([]string, 0, len(list))
	for i, v := range list {
		id, ok := wire.String(v)
		if !ok {
			return nil, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.notifications.taskIds[%d] is no string", i)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// open reads the tasks, acknowledges those that are known and the caller's, and
// sends the state of each. Other ids are passed over in silence (contract 4).
func (s *subscription) open(ctx context.Context, f filter) error {
	var known []*taskroute.Record
	accepted := wire.Raw("[")
	for _, id := range f.taskIDs {
		rec, err := s.h.runner.Get(ctx, s.x.owner(), id)
		if isUnknown(err) {
			continue
		}
		if err != nil {
			return storeError(err)
		}
		if len(known) > 0 {
			accepted = append(accepted, ',')
		}
		accepted = append(accepted, wire.Quote(id)...)
		known = append(known, rec)
	}
	s.out.stream()
	if err := s.acknowledge(f, append(accepted, ']')); err != nil {
		return err
	}
	for _, rec := range known {
		if err := s.send(rec); err != nil {
			return err
		}
	}
	return nil
}

func (s *subscription) acknowledge(f filter, accepted wire.Raw) error {
	var honoured wire.Object
	if f.taskIDs != nil {
		honoured = honoured.With("taskIds", accepted)
	}
	return s.write("notifications/subscriptions/acknowledged",
		wire.Object{}.With("_meta", s.meta()).With("notifications", honoured.Bytes()).Bytes())
}

// run sends every change until the client leaves, its credential ends, the
// gateway shuts down, or there is nothing more to come.
func (s *subscription) run(ctx context.Context) error {
	quiet := time.NewTicker(s.h.opts.KeepAlive)
	defer quiet.Stop()
	recheck := time.NewTicker(s.h.opts.Recheck)
	defer recheck.Stop()
	expired := s.x.untilExpired(s.h.opts.Now())
	defer expired.Stop()
	for s.more || len(s.sent) > 0 {
		var err error
		select {
		case <-s.watch.Changed():
			err = s.sendChanges(ctx, s.watch.Take())
		case <-recheck.C:
			err = s.sendChanges(ctx, slices.Collect(maps.Keys(s.sent)))
		case <-quiet.C:
			err = s.out.write(wire.KeepAlive)
		case <-s.h.closing:
			return nil
		case <-expired.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *subscription) sendChanges(ctx context.Context, ids []string) error {
	for _, id := range ids {
		seen, following := s.sent[id]
		if !following {
			continue
		}
		rec, err := s.h.runner.Get(ctx, s.x.owner(), id)
		switch {
		case isUnknown(err): // expired
			delete(s.sent, id)
		case err != nil: // the store is away; the next recheck tries again
		case rec.Revision > seen:
			if err := s.send(rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// send tells the client a task's state, exactly as tasks/get would.
func (s *subscription) send(rec *taskroute.Record) error {
	if s.sent[rec.ID] = rec.Revision; rec.State.Status.Terminal() {
		delete(s.sent, rec.ID)
	}
	return s.write("notifications/tasks", rec.Wire().Notification(s.x.msg.ID))
}

func (s *subscription) write(method string, params wire.Raw) error {
	return s.out.write(wire.AppendEvent(nil, wire.Message{Method: method, Params: params}.Bytes()))
}

func (s *subscription) meta() wire.Raw {
	return wire.Object{}.With(wire.MetaSubscriptionID, s.x.msg.ID).Bytes()
}

// result is the response that closes the stream gracefully.
func (s *subscription) result() wire.Raw {
	return wire.Object{}.With("resultType", wire.Quote(wire.ResultComplete)).With("_meta", s.meta()).Bytes()
}

func isUnknown(err error) bool {
	return errors.Is(err, taskroute.ErrNotFound) || errors.Is(err, taskroute.ErrExpired) || errors.Is(err, taskroute.ErrMalformed)
}
