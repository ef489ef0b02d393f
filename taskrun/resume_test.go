package taskrun

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"taskgate/internal/bubble"
	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// state is the record's own, as no client sees it.
func (w *world) state(id string) *taskroute.Record {
	w.t.Helper()
	synctest.Wait()
	store, err := taskroute.NewStore(w.store.Backend, taskroute.Options{Now: time.Now})
	if err != nil {
		w.t.Fatal(err)
	}
	rec, err := store.Load(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

func (w *world) token(id string) string { return string(w.state(id).State.Resume) }

func numbered(id string) upstream.Question {
	return upstream.Question{ID: id, Method: wire.MethodElicit, Params: wire.Raw(`{"message":"?"}`)}
}

var gone404 = &upstream.Error{Kind: upstream.Broken, MayHaveRun: true, Err: errors.New("the session is gone")}

func TestTheTokenIsKeptWithTheRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		waiting := r.call()
		w.nth(1).keeps(`{"at":1}`)
		id := waiting.handle()
		check(t, "from the beginning", w.token(id), `{"at":1}`)
		updated := w.state(id).State.UpdatedAt
		writes := w.store.count("replace")
		for _, token := range []string{`{"at":2}`, `{"at":3}`, `{"at":4}`} {
			w.nth(1).keeps(token)
		}
		bubble.Advance(2 * progressEvery)
		check(t, "the latest", w.token(id), `{"at":4}`)
		check(t, "writes, at most one at once and one later", w.store.count("replace")-writes <= 2, true)
		check(t, "it is nothing that clients see", w.state(id).State.UpdatedAt, updated)
		w.nth(1).returns(hello)
		check(t, "after the end", w.token(id), "")
	})
}

func TestACallOfADeadReplicaIsFoundAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		waiting := r.call(reruns(2))
		w.nth(1).keeps(`{"at":1}`)
		id := waiting.handle()
		r.stop()
		other := w.replica()
		bubble.Advance(rescued)
		again := w.nth(2)
		check(t, "token", again.token, `{"at":1}`)
		check(t, "tool", again.Method, "tools/call")
		check(t, "status", other.get(id).State.Status, taskroute.Working)
		check(t, "attempts", w.state(id).State.Attempts, 1)
		again.keeps(`{"at":2}`)
		again.returns(hello)
		check(t, "status", other.get(id).State.Status, taskroute.Completed)
		check(t, "result", string(other.get(id).Outcome.Result), hello[:len(hello)-1]+`,"resultType":"complete"}`)
		check(t, "calls", w.up.count(), 2)
		check(t, "resumed", other.counted("calls_resumed_total"), 1)
		check(t, "rescued by ending", other.counted("records_rescued_total"), 0)
	})
}

func TestTheStatusMessageOutlivesTheReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.nth(1).handler.Progress(object(t, `{"progress":1,"message":"half"}`))
		w.nth(1).keeps(`{"at":1}`)
		bubble.Advance(2 * progressEvery)
		r.stop()
		other := w.replica()
		bubble.Advance(rescued)
		w.nth(2).keeps(`{"at":2}`)
		bubble.Advance(2 * progressEvery)
		check(t, "message", other.get(id).State.StatusMessage, "half")
		check(t, "token", w.token(id), `{"at":2}`)
		w.nth(2).returns(hello)
	})
}

func TestAQuestionOutlivesItsReplica(t *testing.T) {
	for name, before := range map[string]bool{"answered while nobody held it": true, "answered later": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.replica()
				waiting := r.call()
				w.nth(1).keeps(`{"at":1}`)
				w.nth(1).asksAs(numbered("41"))
				id := waiting.handle()
				r.stop()
				const answers = `{"q1":{"action":"accept"}}`
				other := w.replica()
				if before {
					other.answer(id, answers)
				}
				bubble.Advance(rescued)
				again := w.nth(2).asksAs(upstream.Question{ID: "41"})
				if !before {
					check(t, "answer", again.answer(), "")
					check(t, "question", string(other.get(id).PendingInputs().Bytes()), `{"q1":{"method":"elicitation/create","params":{"message":"?"}}}`)
					other.answer(id, answers)
				}
				check(t, "answer", again.answer(), `{"action":"accept"}`)
				check(t, "status", other.get(id).State.Status, taskroute.Working)
				further := w.nth(2).asksAs(numbered("42"))
				check(t, "further question", string(other.get(id).PendingInputs().Bytes()), `{"q2":{"method":"elicitation/create","params":{"message":"?"}}}`)
				other.answer(id, `{"q2":{"action":"decline"}}`)
				check(t, "further answer", further.answer(), `{"action":"decline"}`)
				w.nth(2).returns(hello)
				check(t, "status", other.get(id).State.Status, taskroute.Completed)
			})
		})
	}
}

// The holder died between hearing a question and writing it down.
func TestAQuestionThatNobodyWroteDown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		waiting := r.call()
		w.nth(1).keeps(`{"at":1}`)
		id := waiting.handle()
		r.stop()
		other := w.replica()
		bubble.Advance(rescued)
		check(t, "by its id only", w.nth(2).asksAs(upstream.Question{ID: "41"}).answer(), "error: "+gone.Message)
		q := w.nth(2).asksAs(numbered("42"))
		other.answer(id, `{"q1":{"action":"accept"}}`)
		check(t, "told anew", q.answer(), `{"action":"accept"}`)
		w.nth(2).returns(hello)
	})
}

func TestAHeldCallOutlivesItsReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		waiting := r.call(mrtr)
		w.nth(1).keeps(`{"at":1}`)
		w.nth(1).asksAs(numbered("41"))
		in := waiting.input()
		r.stop()
		other := w.replica()
		bubble.Advance(rescued)
		q := w.nth(2).asksAs(upstream.Question{ID: "41"})
		retry := other.resume(in.State, `{"q1":{"action":"accept"}}`, mrtr)
		check(t, "answer", q.answer(), `{"action":"accept"}`)
		w.nth(2).returns(hello)
		check(t, "reply", retry.reply(), hello[:len(hello)-1]+`,"resultType":"complete"}`)
	})
}

// A replica that was cut off from the store must not stop the call that another
// one has found meanwhile.
func TestTheLoserOfARaceLeavesTheCallAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cut := newFaulty(w.store.Backend)
		r, other := w.replicaOn(cut), w.replica()
		waiting := r.call()
		w.nth(1).keeps(`{"at":1}`)
		id := waiting.handle()
		r.get(id)
		cut.set(down)
		bubble.Advance(2 * rescued)
		check(t, "found by another", w.nth(2).token, `{"at":1}`)
		cut.set(works)
		bubble.Advance(leaseTime)
		check(t, "left", errors.Is(w.nth(1).cause(), upstream.ErrLeave), true)
		check(t, "fenced", r.counted("runs_fenced_total"), 1)
		w.nth(2).returns(hello)
		check(t, "status", other.get(id).State.Status, taskroute.Completed)
	})
}

func TestWhatCannotBeFoundAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		once, twice := r.call(), r.call(reruns(2))
		w.nth(1).keeps(`{"at":1}`)
		w.nth(2).keeps(`{"at":2}`)
		idOnce, idTwice := once.handle(), twice.handle()
		r.stop()
		other := w.replica()
		bubble.Advance(rescued)
		for _, n := range []int{3, 4} {
			w.nth(n).end <- ended{err: gone404}
		}
		failed := other.becomes(idOnce, taskroute.Failed, time.Second)
		check(t, "reason", reasonOf(t, failed), "outcome_unknown")
		check(t, "sent again", w.nth(5).token, "")
		check(t, "attempts", w.state(idTwice).State.Attempts, 2)
		check(t, "token", w.token(idTwice), "")
		w.nth(5).returns(hello)
		check(t, "status", other.get(idTwice).State.Status, taskroute.Completed)
		check(t, "calls", w.up.count(), 5)
	})
}

func TestAnUpstreamThatIsNotConfiguredAnyMore(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		waiting := r.call()
		w.nth(1).keeps(`{"at":1}`)
		parked := r.call(by(ann))
		w.nth(2).returns(asking(`"k":{"method":"elicitation/create","params":{}}`))
		id, parkedID := waiting.handle(), parked.handle()
		r.stop()
		other := w.replica()
		delete(other.upstreams, "up")
		rec := other.becomes(id, taskroute.Failed, rescued)
		check(t, "reason", reasonOf(t, rec), "outcome_unknown")
		other.answer(parkedID, `{"q1":{"action":"accept"}}`)
		other.becomes(parkedID, taskroute.Failed, rescued)
	})
}

func TestCancellingWhatIsFoundAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		waiting := r.call()
		w.nth(1).keeps(`{"at":1}`)
		id := waiting.handle()
		r.stop()
		other := w.replica()
		bubble.Advance(rescued)
		other.cancelTask(id)
		other.becomes(id, taskroute.Cancelled, cancelGrace)
		check(t, "cause", w.nth(2).cause(), errCancelled)
	})
}

// The wish was there before anybody could find the call again.
func TestACancelledOrphanIsStoppedAtItsUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cut := newFaulty(w.store.Backend)
		r, other := w.replicaOn(cut), w.replica()
		waiting := r.call()
		w.nth(1).keeps(`{"at":1}`)
		id := waiting.handle()
		r.get(id)
		cut.set(down)
		other.cancelTask(id)
		other.becomes(id, taskroute.Cancelled, rescued)
		check(t, "token", w.nth(2).token, `{"at":1}`)
		check(t, "it is over before it begins", w.nth(2).cause(), context.Canceled)
	})
}

func TestDrainHandsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		found, rerun, lost := r.call(), r.call(reruns(2)), r.call()
		sync := r.call(undeclared)
		w.nth(1).keeps(`{"at":1}`)
		w.nth(4).keeps(`{"at":4}`)
		ids := []string{found.handle(), rerun.handle(), lost.handle()}
		done := r.drain(time.Minute)
		bubble.Advance(time.Minute - time.Millisecond)
		w.nth(1).keeps(`{"at":2}`)
		bubble.Advance(time.Millisecond)
		check(t, "over", over(done), true)
		for n, left := range map[int]bool{1: true, 2: true, 3: false, 4: false} {
			check(t, "left", errors.Is(w.nth(n).cause(), upstream.ErrLeave), left)
		}
		sync.fails(errShutdown)
		check(t, "status", other.get(ids[2]).State.Status, taskroute.Failed)
		check(t, "handed over", r.counted("records_handed_over_total"), 2)

		bubble.Advance(leaseTime / 2) // not the whole lease
		tokens := map[string]bool{w.nth(5).token: true, w.nth(6).token: true}
		check(t, "found again at the last place", tokens[`{"at":2}`], true)
		check(t, "sent again", tokens[""], true)
		w.nth(5).returns(hello)
		w.nth(6).returns(hello)
		check(t, "status", other.get(ids[0]).State.Status, taskroute.Completed)
		check(t, "status", other.get(ids[1]).State.Status, taskroute.Completed)
	})
}

// The connector may take a moment to let go of a call.
func TestHandingOverWaitsForTheConnector(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		waiting := r.call()
		w.nth(1).keeps(`{"at":1}`)
		w.nth(1).deaf = make(chan struct{})
		id := waiting.handle()
		done := r.drain(time.Minute)
		bubble.Advance(time.Minute)
		close(w.nth(1).deaf)
		check(t, "over", over(done), true)
		bubble.Advance(leaseTime / 2)
		check(t, "token", w.nth(2).token, `{"at":1}`)
		w.nth(2).returns(hello)
		check(t, "status", other.get(id).State.Status, taskroute.Completed)
	})
}

// A question is the call's, not the replica's: it is not taken back when the call is
// left to others, and its answer reaches the upstream through who goes on with it.
func TestDrainHandsAQuestionOver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		waiting := r.call()
		w.nth(1).keeps(`{"at":1}`)
		asked := w.nth(1).asksAs(numbered("41"))
		w.nth(1).deaf = make(chan struct{}) // a connector lets go of its questions first
		id := waiting.handle()
		done := r.drain(time.Minute)
		bubble.Advance(time.Minute)
		check(t, "let go of", asked.answer(), "error: "+gone.Message)
		close(w.nth(1).deaf)
		check(t, "over", over(done), true)
		check(t, "question", string(other.get(id).PendingInputs().Bytes()), `{"q1":{"method":"elicitation/create","params":{"message":"?"}}}`)
		bubble.Advance(leaseTime / 2)
		again := w.nth(2).asksAs(upstream.Question{ID: "41"})
		other.answer(id, `{"q1":{"action":"accept"}}`)
		check(t, "answer", again.answer(), `{"action":"accept"}`)
		w.nth(2).returns(hello)
		check(t, "status", other.get(id).State.Status, taskroute.Completed)
	})
}
