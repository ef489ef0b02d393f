package upstream

import (
	"context"

	"taskgate/wire"
)

// verdict is a reply, and whether there is doubt about the era: the upstream has
// refused the request unread, as one of the other era would.
type verdict struct {
	reply Reply
	doubt bool
}

// dialect is what the eras have in common. doubt is as in verdict.
type dialect interface {
	call(ctx context.Context, r *Request, h Handler) underway[verdict]
	// resume goes on with a call of an earlier process.
	resume(ctx context.Context, t token, r Request, h Handler) (Reply, error)
	info(ctx context.Context) (info Info, doubt bool, err error)
	// listen is a source. An error is errDeaf, or says how the stream broke.
	listen(ctx context.Context, r ListenRequest, wants <-chan wire.Filter, to *audience) (doubt bool, err error)
}

// call is a request in the upstream's era.
type call struct {
	request Request
	handler Handler
	era     Era
	sent    underway[verdict]
}

// begin sends the request.
func (h *Connector) begin(ctx context.Context, c *call) (err error) {
	if err := h.needsClient(ctx); err != nil {
		return err
	}
	if c.era, err = h.detector.era(ctx, &c.request); err != nil {
		h.count(err)
		return err
	}
	c.sent = h.dialects[c.era].call(ctx, &c.request, c.handler)
	return nil
}

// outcome is that of a request that was sent. It is sent once more when another era
// turns out to be the right one.
func (h *Connector) outcome(ctx context.Context, c *call) (Reply, error) {
	v, err := c.sent.outcome(ctx)
	if v.doubt {
		if right := h.other(ctx, c.era, &c.request); right != nil {
			v, err = right.call(ctx, &c.request, c.handler).outcome(ctx)
		}
	}
	h.count(err)
	return v.reply, err
}

// other is the dialect of the era that the upstream is of instead; nil: none that is
// known.
func (h *Connector) other(ctx context.Context, was Era, r *Request) dialect {
	if now, err := h.detector.again(ctx, was, r); err == nil && now != was {
		return h.dialects[now]
	}
	return nil
}
