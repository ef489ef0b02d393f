package legacyfront

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"taskgate/wire"
)

// leg is what is kept of one request of a session, from when its answer became a
// stream: what was said to the client, so that it can be said again on another
// connection, and what the client said to it, wherever that arrived. It is a note.
type leg struct {
	// ID is that of the request, once its answer is a stream.
	ID wire.Raw `json:"id,omitempty"`
	// Events are the messages so far, event n being Events[n-1]: questions and
	// the answer. What is only a hint, as progress is, is not kept.
	Events [][]byte `json:"events,omitempty"`
	// Over: nothing more will come.
	Over bool `json:"over,omitempty"`
	// Answers are the client's responses, by the id of the question.
	Answers map[string][]byte `json:"answers,omitempty"`
	// Cancelled: the client does not want the answer any more.
	Cancelled bool `json:"cancelled,omitempty"`
	// Refreshed counts how often the note was written to keep it.
	Refreshed int `json:"refreshed,omitempty"`
}

// end notes the answer, with which the call is over.
func (l *leg) end(event []byte) {
	l.Over, l.Events = true, append(l.Events, event)
}

// legName names a request in ids that clients see.
func legName(id wire.Raw) string {
	sum := sha256.Sum256(id)
	return hex.EncodeToString(sum[:8])
}

// legKey is the key of the note. It has the session in it, so that nobody else's
// can be reached.
func (s *session) legKey(name string) string { return "leg-" + s.ID + "-" + name }

func readLeg(text []byte) (l leg, err error) {
	if text == nil {
		return l, nil
	}
	err = json.Unmarshal(text, &l)
	return l, err
}

// changeLeg changes what is kept of a request.
func (f *Front) changeLeg(ctx context.Context, key string, change func(*leg) error) error {
	ctx, cancel := f.briefly(ctx)
	defer cancel()
	_, err := f.store.ChangeNote(ctx, key, f.opts.Kept, func(old []byte) ([]byte, error) {
		l, err := readLeg(old)
		if err != nil {
			return nil, err
		}
		if err := change(&l); err != nil {
			return nil, err
		}
		return json.Marshal(l)
	})
	return err
}

// refreshLeg gives the note, if there is one, new time.
func (f *Front) refreshLeg(ctx context.Context, key string) {
	if text, err := f.read(ctx, key); err != nil || text == nil {
		return
	}
	if err := f.changeLeg(ctx, key, func(l *leg) error { l.Refreshed++; return nil }); err != nil {
		f.opts.Log.Warn("the note of a running request could not be refreshed", zap.Error(err))
	}
}

// asked tells whether a question of that id was put to the client.
func (l *leg) asked(id wire.Raw) bool {
	return slices.ContainsFunc(l.Events, func(event []byte) bool {
		msg, rpc := wire.Decode(event)
		return rpc == nil && msg.IsRequest() && string(msg.ID) == string(id)
	})
}

// errClosing: the gateway goes down and nobody is left who could wait.
var errClosing = errors.New("the gateway is shutting down")

// await shows the note under key to see: at once, after every change, and now
// and then without one, until see has seen enough. idle is called while it is
// quiet; nil: nobody needs that. While the store is away it waits on.
func (f *Front) await(ctx context.Context, key string, idle func(), see func(text []byte) (enough bool)) error {
	watch := f.store.WatchNotes(key)
	defer watch.Stop()
	recheck := time.NewTicker(f.opts.Recheck)
	defer recheck.Stop()
	quiet := time.NewTicker(f.opts.KeepAlive)
	defer quiet.Stop()
	for {
		if text, err := f.read(ctx, key); err == nil && see(text) {
			return nil
		}
		for looking := true; looking; {
			select {
			case <-watch.Changed():
				looking = false
			case <-recheck.C:
				looking = false
			case <-quiet.C:
				if idle != nil {
					idle()
				}
			case <-f.closing:
				return errClosing
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

func (f *Front) read(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := f.briefly(ctx)
	defer cancel()
	return f.store.Note(ctx, key)
}
