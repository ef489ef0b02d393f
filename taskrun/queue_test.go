package taskrun

import (
	"fmt"
	"testing"
	"time"

	"taskgate/internal/bubble"
	"taskgate/policy"
	"taskgate/taskroute"
)

// oneAtATime is a rule's limit: one runs, so many wait, each so long.
func oneAtATime(per policy.Per, queue int, wait time.Duration) func(*Call) {
	return func(c *Call) {
		c.Decision.Concurrency = policy.Concurrency{Limit: 1, Queue: queue, Per: per, Wait: wait}
	}
}

func TestQueueOfARule(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		one := oneAtATime(policy.PerPrincipal, 1, 0)
		r := w.replica()
		first := r.call(one, atOnce).handle()
		second := r.call(one, atOnce).handle()
		bubble.Advance(progressEvery)
		check(t, "status message", r.get(second).State.StatusMessage, "Waiting for its turn: number 1 in the queue.")
		_, err := r.call(one, atOnce).outcome()
		check(t, "the one too many", string(WireError(err).Data), `{"reason":"overloaded","retriable":true,"retryAfterMs":1000,"limit":1}`)
		check(t, "records", w.open(ann), 2)
		r.call(one, by(bob))
		check(t, "calls at the upstream", w.up.count(), 2)
		w.nth(1).returns(hello)
		check(t, "status", r.get(first).State.Status, taskroute.Completed)
		bubble.Advance(recheck)
		check(t, "status message when its turn has come", r.get(second).State.StatusMessage, "")
		w.nth(3).returns(hello)
		check(t, "status", r.get(second).State.Status, taskroute.Completed)
	})
}

// The place is told anew as the queue moves.
func TestPlaceInTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		one := oneAtATime(policy.PerRule, 9, 0)
		r := w.replica()
		r.call(one, atOnce)
		r.call(one, atOnce)
		third := r.call(one).handle() // promoted while it waits
		for n := 1; n <= 2; n++ {
			check(t, "status message", r.get(third).State.StatusMessage, fmt.Sprintf("Waiting for its turn: number %d in the queue.", 3-n))
			w.nth(n).returns(hello)
			bubble.Advance(recheck)
		}
		check(t, "status message when its turn has come", r.get(third).State.StatusMessage, "")
		w.nth(3).progress(`{"progress":1,"message":"Half of it"}`)
		bubble.Advance(progressEvery)
		check(t, "status message", r.get(third).State.StatusMessage, "Half of it")
	})
}

// Waiting has a time of its own: it takes nothing of the run's, and when it is
// over nothing was sent.
func TestTimeInTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		one := oneAtATime(policy.PerRule, 9, 5*time.Minute)
		r := w.replica()
		first := r.call(one, atOnce, timeout(4*time.Minute)).handle()
		second := r.call(one, atOnce, timeout(4*time.Minute)).handle()
		bubble.Advance(4*time.Minute - time.Millisecond)
		check(t, "status", r.get(first).State.Status, taskroute.Working)
		bubble.Advance(time.Millisecond)
		check(t, "reason", reasonOf(t, r.get(first)), "timeout")
		third, held := r.call(one, atOnce).handle(), r.call(one, undeclared)
		bubble.Advance(4*time.Minute - time.Millisecond)
		check(t, "status after a wait and nearly all of its time", r.get(second).State.Status, taskroute.Working)
		check(t, "calls at the upstream", w.up.count(), 2)
		bubble.Advance(time.Millisecond)
		check(t, "reason", reasonOf(t, r.get(second)), "timeout")
		check(t, "status", r.get(third).State.Status, taskroute.Working)
		bubble.Advance(time.Minute)
		_, err := held.outcome()
		check(t, "to who waited too long", string(WireError(err).Data), `{"reason":"overloaded","retriable":true,"retryAfterMs":300000,"limit":1}`)
		check(t, "calls at the upstream", w.up.count(), 3)
	})
}

// Turns go round the callers, also under a limit that they share.
func TestQueueIsFair(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		one := oneAtATime(policy.PerRule, 9, 0)
		r := w.replica()
		r.call(one, undeclared)
		greedy := []*client{r.call(one, undeclared), r.call(one, undeclared), r.call(one, undeclared)}
		other := r.call(one, undeclared, by(bob))
		for n := 1; n <= 3; n++ {
			w.nth(n).returns(hello)
		}
		check(t, "the other caller got no turn among the first three", other.waits(), false)
		check(t, "the greedy one's second waits", greedy[1].waits(), true)
		check(t, "calls at the upstream", w.up.count(), 4)
	})
}
