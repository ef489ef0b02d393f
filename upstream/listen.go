package upstream

import (
	"context"
	"errors"
	"sync"

	"taskgate/wire"
)

// Listen implements Caller.
func (h *Connector) Listen(ctx context.Context, r ListenRequest) (*Subscription, error) {
	if err := h.needsClient(ctx); err != nil {
		return nil, err
	}
	request := r.request()
	return h.audiences.join(ctx, h.opts.Isolation.key(request), r, func(ctx context.Context, wants <-chan wire.Filter, to *audience) error {
		era, err := h.detector.era(ctx, &request)
		if err != nil {
			return err
		}
		doubt, err := h.dialects[era].listen(ctx, r, wants, to)
		if doubt && ctx.Err() == nil {
			_, _ = h.detector.again(ctx, era, &request) // the next try is in the era that it finds
		}
		return err
	})
}

// listen opens a subscriptions/listen for each filter. The one before is closed
// when the next is acknowledged, so that nothing falls between them.
func (d *modern) listen(ctx context.Context, r ListenRequest, wants <-chan wire.Filter, to *audience) (doubt bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var streams sync.WaitGroup
	defer streams.Wait()
	defer cancel()
	broke := make(chan error, 1)
	closeLast := func() {}
	for {
		select {
		case want := <-wants:
			streamCtx, closeStream := context.WithCancel(ctx)
			closePrevious := closeLast
			closeLast = closeStream
			streams.Go(func() {
				err := d.subscribe(streamCtx, r.request(), want, func(honoured wire.Filter) {
					to.opened(want, honoured)
					closePrevious()
				}, to.hear)
				if streamCtx.Err() == nil { // else it was closed, not broken
					broke <- err
				}
			})
		case err := <-broke:
			return wrongEndpoint(err), err
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// subscribe reads one subscriptions/listen stream to its end.
func (d *modern) subscribe(ctx context.Context, r Request, want wire.Filter, acknowledged func(wire.Filter), hear func(string, wire.Raw)) error {
	r.Method = "subscriptions/listen"
	r.Params = wire.Object{}.With("notifications", want.Object().Bytes())
	a, err := d.send(ctx, d.ids.next(), &r, false, func(m wire.Message) {
		switch {
		case m.Method == wire.NoteAcknowledged:
			params, _ := wire.ParseObject(m.Params)
			honoured, _ := wire.ParseFilter(params.Get("notifications")) // what cannot be read honours nothing
			acknowledged(honoured)
		case m.IsNotification():
			hear(m.Method, m.Params)
		}
	}).outcome(ctx)
	switch {
	case err != nil:
		return err
	case a.Error == nil:
		return errors.New("the upstream has closed the subscription")
	}
	e := wire.ParseError(a.Error)
	if e.Code == wire.CodeMethodNotFound {
		return errDeaf
	}
	return e
}
