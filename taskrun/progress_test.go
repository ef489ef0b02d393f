package taskrun

import (
	"fmt"
	"testing"
	"time"

	"taskgate/internal/bubble"
	"taskgate/taskroute"
	"taskgate/wire"
)

func (p *played) progress(params string) { p.handler.Progress(object(p.t, params)) }

func TestProgressIsRelayedUntilThePromotion(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		c := r.call()
		up := w.nth(1)
		up.progress(`{"progress":1.0,"total":9007199254740993,"x":{"b":1,"a":2}}`)
		up.handler.Notify("notifications/message", wire.Raw(`{"level":"info"}`))
		id := c.handle()
		up.progress(`{"progress":2,"message":"half way"}`)
		up.handler.Notify("notifications/message", wire.Raw(`{"level":"info"}`))
		check(t, "relayed", fmt.Sprint(c.seen),
			`[notifications/progress {"progress":1.0,"total":9007199254740993,"x":{"b":1,"a":2}} notifications/message {"level":"info"}]`)
		bubble.Advance(progressEvery)
		check(t, "status message", r.get(id).State.StatusMessage, "half way")
	})
}

func TestFirstMessageIsThatOfTheProgressSoFar(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.replica().call()
		w.nth(1).progress(`{"progress":1,"total":3}`)
		out, err := c.outcome()
		if err != nil || out.Task == nil {
			t.Fatalf("got %+v, %v", out, err)
		}
		check(t, "status message", out.Task.State.StatusMessage, "Progress: 1 of 3")
	})
}

// However often an upstream reports, the record is written at most every
// progressEvery, and the last report is not lost.
func TestProgressIsThrottled(t *testing.T) {
	for name, pause := range map[string]time.Duration{"in a burst": 0, "steadily": 10 * time.Millisecond, "now and then": 400 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.replica()
				id := r.call().handle()
				r.get(id)
				before, began := w.store.count("replace"), time.Now()
				for i := range 200 {
					w.nth(1).progress(fmt.Sprintf(`{"progress":%d}`, i))
					bubble.Advance(pause)
				}
				took := time.Since(began)
				bubble.Advance(progressEvery)
				check(t, "status message", r.get(id).State.StatusMessage, "Progress: 199")
				writes, most := w.store.count("replace")-before, int(took/progressEvery)+2
				if writes > most || writes == 0 {
					t.Errorf("%d writes in %v, want some and at most %d", writes, took, most)
				}
				w.nth(1).returns(hello)
				rec := r.get(id)
				w.nth(1).progress(`{"progress":200}`)
				bubble.Advance(time.Minute)
				check(t, "revision", r.get(id).Revision, rec.Revision)
				check(t, "status", rec.State.Status, taskroute.Completed)
				check(t, "status message", rec.State.StatusMessage, "")
			})
		})
	}
}

// Only a call that shows how long the tool takes is measured.
func TestWhatIsMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		play func(*played, *client)
		want time.Duration // 0: nothing
	}{
		"a result":            {func(p *played, _ *client) { p.returns(hello) }, time.Second},
		"an error":            {func(p *played, _ *client) { p.fails(`{"code":1,"message":"no"}`) }, time.Second},
		"out of time":         {func(*played, *client) { bubble.Advance(9 * time.Second) }, 10 * time.Second},
		"a hang-up":           {func(_ *played, c *client) { c.hangUp() }, 0},
		"people took a while": {func(p *played, _ *client) { p.asks(`{}`); p.returns(hello) }, 0},
		"a question":          {func(p *played, _ *client) { p.returns(`{"resultType":"input_required","requestState":"x"}`) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var got time.Duration
				r := w.replica(func(o *Options) {
					o.Took = func(upstream, tool string, took time.Duration) {
						check(t, "of", upstream+"/"+tool, "up/report")
						got = took
					}
				})
				caller := r.call(undeclared, timeout(10*time.Second))
				bubble.Advance(time.Second)
				c.play(w.nth(1), caller)
				caller.waits()
				check(t, "measured", got, c.want)
			})
		})
	}
}
