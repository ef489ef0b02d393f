package taskrun

import (
	"errors"
	"testing"
	"testing/synctest"

	"taskgate/wire"
)

// FuzzRequestState: whatever a client brings back as requestState, only the one
// that it was given goes on with its call, and nothing panics. It is told apart
// by its bytes, so a state that merely looks like it is refused as well.
func FuzzRequestState(f *testing.F) {
	for _, s := range []string{"", "tg", "tg.", "tg..", "tg.x.y", "tg.AAAAAAAAAAAAAAAAAAAAAAAAAA.", "TG.a.b", "tg.\x00.\xff", "tg.{a}.*"} {
		f.Add(s, "", 0)
	}
	f.Add("tg.", ".", 0) // these wrap the real one
	f.Add("", " ", 1)
	f.Add(" ", "", 1)
	f.Add("", "", 1)
	f.Fuzz(func(t *testing.T, before, after string, real int) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			r := w.replica()
			state, q := w.ask(r)
			brought := before + after
			if real != 0 {
				brought = before + state + after
			}
			c := r.resume(brought, `{"q1":{"n":1}}`, mrtr)
			if brought == state {
				check(t, "answer", q.answer(), `{"n":1}`)
				return
			}
			if _, err := c.outcome(); !errors.Is(err, ErrBadState) && OwnsState(brought) {
				t.Fatalf("%q: %v", brought, err)
			}
			check(t, "answer", q.answer(), "")
			check(t, "code", WireError(ErrBadState).Code, wire.CodeInvalidParams)
		})
	})
}
