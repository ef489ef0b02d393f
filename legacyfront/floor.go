package legacyfront

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

// A session may have several streams that belong to no request, at several
// replicas, but each message goes out on one of them only (2025-11-25,
// basic/transports, Multiple Connections). It is the latest that has the floor: the
// connections before may be dead without anybody knowing. When it ends, another takes it.

// takeFloor gives the floor to this stream. While the store is away it speaks, rather
// than none.
func (l *listener) takeFloor(ctx context.Context) {
	l.speaks = true
	if err := l.f.change(ctx, l.s, func(st *state) { st.Listener = l.id }); err != nil {
		l.f.opts.Log.Warn("a session's streams may all get its messages: the store does not say which is to", zap.Error(err))
	}
}

// giveFloor learns which stream has the floor. One that nobody has is taken.
func (l *listener) giveFloor(ctx context.Context, holder string) {
	if holder == "" {
		_ = l.f.change(ctx, l.s, func(st *state) { // its outcome is seen as every change
			if st.Listener == "" {
				st.Listener = l.id
			}
		})
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	had := l.speaks
	if l.speaks = holder == l.id; l.speaks && !had {
		l.lookAgain() // nobody may have spoken in between
	}
}

// leaveFloor lets others have the floor. A state that has nothing in it any more is
// not kept.
func (l *listener) leaveFloor(ctx context.Context) {
	leave := func(st *state) {
		if st.Listener == l.id {
			st.Listener = ""
		}
	}
	errNeeded := errors.New("the session has changed more")
	brief, cancel := l.f.briefly(ctx)
	defer cancel()
	_, err := l.f.store.ChangeNote(brief, l.s.stateKey(), time.Second, func(old []byte) ([]byte, error) {
		text, err := changed(old, leave)
		if err == nil && string(text) != "{}" {
			err = errNeeded
		}
		return text, err
	})
	if errors.Is(err, errNeeded) {
		err = l.f.change(ctx, l.s, leave)
	}
	if err != nil {
		l.f.opts.Log.Warn("the end of a session's stream was not noted", zap.Error(err))
	}
}
