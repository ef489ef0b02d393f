package upstream

import (
	"context"

	"taskgate/wire"
)

// verdict is a value, and whether there is doubt about the era: the upstream has
// refused the request unread, as one of the other era would.
type verdict[T any] struct {
	value T
	doubt bool
}

// dialect is what the eras have in common. doubt is as in verdict.
type dialect interface {
	call(ctx context.Context, r *Request, h Handler) Pending[verdict[Reply]]
	// resume goes on with a call of an earlier process.
	resume(ctx context.Context, t token, r Request, h Handler) (Reply, error)
	info(ctx context.Context) (info Info, doubt bool, err error)
	// listen is a source. An error is errDeaf, or says how the stream broke.
	listen(ctx context.Context, r ListenRequest, wants <-chan wire.Filter, to *audience) (doubt bool, err error)
}

// speak runs f in the upstream's era, and once more in the other one when that
// turns out to be the right one.
func speak[T any](ctx context.Context, h *Connector, r *Request, f func(dialect) Pending[verdict[T]]) Pending[T] {
	era, err := h.detector.era(ctx, *r)
	if err != nil {
		h.count(err)
		return Failed[T](err)
	}
	return Then(f(h.dialects[era]), func(v verdict[T], err error) (T, error) {
		if v.doubt {
			if now, probeErr := h.detector.again(ctx, era, *r); probeErr == nil && now != era {
				v, err = f(h.dialects[now]).Outcome()
			}
		}
		h.count(err)
		return v.value, err
	})
}
