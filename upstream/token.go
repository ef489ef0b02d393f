package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"taskgate/wire"
)

// token says where a call can be found again. Nobody but Resume reads it.
type token struct {
	// Modern tells the era of the task. A call without a task is never modern:
	// there, what is no task ends with its stream.
	Modern bool   `json:"modern,omitempty"`
	Task   string `json:"task,omitempty"` // the upstream's id of it

	// What follows is legacy.
	Session string `json:"session,omitempty"`
	Version string `json:"version,omitempty"` // of the protocol
	Request uint64 `json:"request,omitempty"` // the id the call has there
	// Event is the last one seen of the call's stream, and Open are the ids of
	// the questions that were out then.
	Event string     `json:"event,omitempty"`
	Open  []wire.Raw `json:"open,omitempty"`
	// Shared: the session has had other calls while this one ran, or those of others
	// may come into it unseen.
	Shared bool `json:"shared,omitempty"`

	// passing: the connection ends with this process, and with it the call.
	passing bool
}

func parseToken(raw wire.Raw) (token, error) {
	var t token
	if err := json.Unmarshal(raw, &t); err != nil {
		return t, fmt.Errorf("token: %w", err)
	}
	if t.Task == "" && (t.Modern || t.Event == "") {
		return t, errors.New("token: it names neither a task nor an event")
	}
	return t, nil
}

func (t token) bytes() wire.Raw {
	b, _ := json.Marshal(t) // nothing in it can fail
	return b
}

// maxToken, in bytes, bounds what a server can put into every record by long
// ids. A call with longer ones is found where it last was with shorter ones, if
// at all.
const maxToken = 8 << 10

// keepAt hands a token to a Handler that wants it.
func keepAt(h Handler, t token) {
	keeper, ok := h.(Keeper)
	if !ok || !t.findable() {
		return
	}
	if raw := t.bytes(); len(raw) <= maxToken {
		keeper.Keep(raw)
	}
}

// findable tells that there is enough in it to find the call again.
func (t token) findable() bool { return !t.passing && (t.Task != "" || t.Event != "") }

// left tells that the end of ctx only leaves the call.
func left(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrLeave) }

// keep hands the token out anew, changed, to a Handler that wants it.
func (c *conversation) keep(change func(*token)) {
	c.mu.Lock()
	if change != nil {
		change(&c.place)
	}
	c.place.Shared = c.place.Shared || c.session.begun.Load() != c.begun
	c.place.Open = c.place.Open[:0:0]
	for _, id := range slices.Sorted(maps.Keys(c.questions)) {
		c.place.Open = append(c.place.Open, wire.Raw(id))
	}
	t := c.place
	c.mu.Unlock()
	keepAt(c.handler, t)
}

// seen notes how far the call's stream has been read.
func (c *conversation) seen(ev wire.Event) {
	if ev.Retry > 0 {
		c.retry.Store(int64(ev.Retry))
	}
	if ev.ID != "" && ev.ID != c.found().Event {
		c.keep(func(t *token) { t.Event = ev.ID })
	}
}

func (c *conversation) found() token {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.place
}

// busy tells whether other calls run in the session.
func (p *pool) busy(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.calls > 1
}
