package proxy

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// subscription is one open subscriptions/listen stream.
type subscription struct {
	h      *Handler
	x      *exchange
	out    *responder
	filter wire.Filter
	watch  *taskroute.Watcher
	sent   map[string]state // by id of a task that has not ended: what the client has
	heard  *hearing         // nil: nothing of the upstream's own
	done   func()           // gives the caller's place back
}

// state is as much of a task as it takes to know that it is another by now.
type state struct {
	revision uint64
	until    time.Time // when it changes with nobody writing it; zero: never
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
	done, err := h.quotas.stream(x.owner())
	if err != nil {
		return nil, err
	}
	s := &subscription{h: h, x: x, out: out, filter: filter, watch: h.runner.Watch(filter.TaskIDs...), sent: map[string]state{}, done: done}
	s.heard = h.hear(ctx, x, filter.WithoutTasks())
	if err := s.open(ctx); err != nil {
		s.close()
		return nil, err
	}
	out.rest = s.rest
	return nil, nil
}

// rest is what comes after the beginning.
func (s *subscription) rest(ctx context.Context) (wire.Raw, error) {
	defer s.close()
	err := s.run(ctx)
	return s.result(), err
}

func (s *subscription) close() {
	if s.heard != nil {
		s.heard.Close()
	}
	s.watch.Stop()
	s.done()
}

// open reads the tasks, acknowledges what is honoured and, of the tasks, those
// that are known and the caller's, and sends the state of each. Other ids are
// passed over in silence (contract 4).
func (s *subscription) open(ctx context.Context) error {
	var honoured wire.Filter
	if s.heard != nil {
		honoured = s.heard.Honoured()
	}
	if s.filter.TaskIDs != nil {
		honoured.TaskIDs = []string{}
	}
	var known []*taskroute.Record
	for _, id := range s.filter.TaskIDs {
		rec, err := s.h.runner.Get(ctx, s.x.owner(), id)
		if isAboutTask(err) { // which is not to keep others from being followed
			continue
		}
		if err != nil {
			return storeError(err)
		}
		honoured.TaskIDs, known = append(honoured.TaskIDs, id), append(known, rec)
	}
	s.out.streamAlone()
	if err := s.acknowledge(honoured); err != nil {
		return err
	}
	for _, rec := range known {
		if err := s.send(rec); err != nil {
			return err
		}
	}
	return nil
}

func (s *subscription) acknowledge(honoured wire.Filter) error {
	return s.write(wire.NoteAcknowledged, wire.Object{}.With("_meta", s.meta()).With("notifications", honoured.Object().Bytes()).Bytes())
}

// waits tells whether there is something to come. Whoever asked for more
// than tasks waits on, even where nothing of it is honoured: closing would only
// make it come back.
func (s *subscription) waits() bool { return len(s.sent) > 0 || !s.filter.WithoutTasks().IsEmpty() }

// run sends every change until the client leaves, its credential ends, the
// gateway shuts down, or there is nothing more to come. Its frame is what a stream
// that waits keeps of the stack, so it holds little.
func (s *subscription) run(ctx context.Context) error {
	quiet := time.NewTicker(s.h.opts.KeepAlive)
	defer quiet.Stop()
	recheck := time.NewTicker(s.h.opts.Recheck)
	defer recheck.Stop()
	expired := s.x.untilExpired(s.h.opts.Now())
	defer expired.Stop()
	var heard <-chan struct{}
	if s.heard != nil {
		heard = s.heard.Changed()
	}
	for s.waits() {
		var err error
		select {
		case <-s.watch.Changed():
			err = s.sendChanges(ctx, s.watch.Take())
		case <-recheck.C:
			err = s.recheck(ctx)
		case <-heard:
			err = s.relay(s.heard.Take())
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

// relay sends what the upstream said, under this subscription's own id.
func (s *subscription) relay(notes []upstream.Notification) error {
	for _, n := range notes {
		params, _ := wire.ParseObject(n.Params) // no params are an empty object
		meta, _ := params.Object("_meta")
		params = params.With("_meta", meta.With(wire.MetaSubscriptionID, s.x.msg.ID).Bytes())
		if err := s.write(n.Method, params.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// recheck looks at all tasks, should a hint have been lost. Those that are as they
// were are not read: of many tasks, that would hold up what is to be told meanwhile.
func (s *subscription) recheck(ctx context.Context) error {
	ids := slices.Collect(maps.Keys(s.sent))
	revisions, err := s.h.runner.Revisions(ctx, ids)
	if err != nil { // the store is away; the next recheck tries again
		return nil
	}
	now := s.h.opts.Now()
	var changed []string
	for i, id := range ids {
		until := s.sent[id].until
		if revisions[i] != s.sent[id].revision || (!until.IsZero() && !now.Before(until)) {
			changed = append(changed, id)
		}
	}
	return s.sendChanges(ctx, changed)
}

func (s *subscription) sendChanges(ctx context.Context, ids []string) error {
	for _, id := range ids {
		seen, following := s.sent[id]
		if !following {
			continue
		}
		rec, err := s.h.runner.Get(ctx, s.x.owner(), id)
		switch {
		case isAboutTask(err): // expired
			delete(s.sent, id)
		case err != nil: // the store is away; the next recheck tries again
		case rec.Revision > seen.revision:
			if err := s.send(rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// send tells the client a task's state, exactly as tasks/get would.
func (s *subscription) send(rec *taskroute.Record) error {
	if s.sent[rec.ID] = (state{rec.Revision, rec.ChangesAt()}); rec.State.Status.Terminal() {
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
