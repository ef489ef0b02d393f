package taskrun

import (
	"testing"
	"testing/synctest"
	"time"

	"taskgate/internal/bubble"
	"taskgate/reqcoord"
	"taskgate/taskroute"
)

func TestQuestionMakesATask(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		c := r.call()
		q := w.nth(1).asks(`{"message":"sure?"}`)
		if c.waits() {
			t.Fatal("the client waits although there is a question")
		}
		id := c.handle()
		rec := r.get(id)
		check(t, "status", rec.State.Status, taskroute.InputRequired)
		check(t, "inputRequests", string(rec.PendingInputs().Bytes()), `{"q1":{"method":"elicitation/create","params":{"message":"sure?"}}}`)
		check(t, "answer", q.answer(), "")
		r.answer(id, `{"q1":{"action":"accept","content":{"n":9007199254740993}}}`)
		check(t, "answer", q.answer(), `{"action":"accept","content":{"n":9007199254740993}}`)
		check(t, "status", r.get(id).State.Status, taskroute.Working)
		w.nth(1).returns(hello)
		check(t, "status", r.get(id).State.Status, taskroute.Completed)
		check(t, "calls at the upstream", w.up.count(), 1)
	})
}

func TestSeveralQuestionsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		first, second := w.nth(1).asks(`{"message":"name?"}`), w.nth(1).asks(`{"message":"age?"}`)
		check(t, "pending", len(r.get(id).PendingInputs()), 2)

		if err := r.Update(t.Context(), ann, id, object(t, `{"q1":{"action":"accept"},"q3":{"action":"accept"},"nonsense":1}`)); err != nil {
			t.Fatal(err)
		}
		rec, err := r.Get(t.Context(), ann, id) // the very next one
		if err != nil {
			t.Fatal(err)
		}
		check(t, "status", rec.State.Status, taskroute.InputRequired)
		check(t, "pending", string(rec.PendingInputs().Bytes()), `{"q2":{"method":"elicitation/create","params":{"message":"age?"}}}`)
		check(t, "first answer", first.answer(), `{"action":"accept"}`)
		check(t, "second answer", second.answer(), "")

		r.answer(id, `{"q1":{"action":"decline"}}`) // is answered already
		check(t, "status", r.get(id).State.Status, taskroute.InputRequired)
		r.answer(id, `{"q2":{"action":"decline"}}`)
		check(t, "second answer", second.answer(), `{"action":"decline"}`)
		check(t, "status", r.get(id).State.Status, taskroute.Working)
	})
}

func TestQuestionsOfSeveralRoundsHaveKeysOfTheirOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		for _, key := range []string{"q1", "q2", "q3"} {
			q := w.nth(1).asks(`{"message":"again?"}`)
			rec := r.get(id)
			check(t, "pending", string(rec.PendingInputs().Bytes()), `{"`+key+`":{"method":"elicitation/create","params":{"message":"again?"}}}`)
			r.answer(id, `{"`+key+`":{"round":"`+key+`"}}`)
			check(t, "answer", q.answer(), `{"round":"`+key+`"}`)
		}
	})
}

func TestAnswersAfterTheEndAreIgnored(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.nth(1).asks(`{}`)
		w.nth(1).returns(hello)
		before := r.get(id)
		r.answer(id, `{"q1":{"action":"accept"}}`)
		check(t, "revision", r.get(id).Revision, before.Revision)
		check(t, "status", r.get(id).State.Status, taskroute.Completed)
	})
}

func TestForeignersCannotAnswerOrCancel(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		q := w.nth(1).asks(`{}`)
		_, errGet := r.Get(t.Context(), bob, id)
		errUpdate := r.Update(t.Context(), bob, id, object(t, `{"q1":{}}`))
		errCancel := r.Cancel(t.Context(), bob, id)
		for _, err := range []error{errGet, errUpdate, errCancel} {
			check(t, "error", err, error(taskroute.ErrNotFound))
		}
		check(t, "answer", q.answer(), "")
		check(t, "cause", w.nth(1).cause(), nil)
	})
}

// Waiting for people costs the upstream none of its time, however long it takes
// and however many they are.
func TestTimeoutStandsStillWhileAQuestionIsOut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call(timeout(time.Minute)).handle() // 2 s are gone
		bubble.Advance(28 * time.Second)
		w.nth(1).asks(`{"message":"name?"}`)
		bubble.Advance(5 * time.Minute)
		w.nth(1).asks(`{"message":"age?"}`)
		r.answer(id, `{"q1":{}}`)
		bubble.Advance(5 * time.Minute)
		check(t, "status", r.get(id).State.Status, taskroute.InputRequired)
		r.answer(id, `{"q2":{}}`)
		bubble.Advance(30*time.Second - time.Millisecond)
		check(t, "status", r.get(id).State.Status, taskroute.Working)
		bubble.Advance(2 * time.Millisecond)
		check(t, "status", r.get(id).State.Status, taskroute.Failed)
		check(t, "cause", w.nth(1).cause(), errTimeout)
	})
}

func TestWithdrawnQuestionIsNotAskedAnyMore(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call(timeout(time.Minute)).handle()
		first, second := w.nth(1).asks(`{"message":"name?"}`), w.nth(1).asks(`{"message":"age?"}`)
		first.withdraw()
		check(t, "pending", string(r.get(id).PendingInputs().Bytes()), `{"q2":{"method":"elicitation/create","params":{"message":"age?"}}}`)
		second.withdraw()
		check(t, "status", r.get(id).State.Status, taskroute.Working)
		r.answer(id, `{"q1":{},"q2":{}}`) // superseded: ignored
		bubble.Advance(time.Minute)
		check(t, "cause", w.nth(1).cause(), errTimeout) // its clock runs again
	})
}

// The client may answer, or cancel, as soon as it has the handle: nobody waits
// for the next turn of a clock then.
func TestAnswerRightAfterTheHandle(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		for i := range 100 {
			c := r.call()
			q := w.nth(i + 1).asks(`{}`)
			<-c.done
			began := time.Now()
			r.answer(c.handle(), `{"q1":{}}`)
			check(t, "answer", q.answer(), `{}`)
			check(t, "time it took", time.Since(began), 0)
			w.nth(i + 1).returns(hello)
		}
	})
}

func TestTimeInTheQueueIsNotTheUpstreams(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.limits = map[string]reqcoord.Limits{"up": {Concurrency: 1, Queue: 1}}
		r := w.replica()
		r.call(timeout(0))
		id := r.call(atOnce, timeout(time.Minute)).handle()
		bubble.Advance(10 * time.Minute)
		check(t, "calls", w.up.count(), 1)
		w.nth(1).returns(hello)
		bubble.Advance(time.Minute - time.Millisecond)
		check(t, "status", r.get(id).State.Status, taskroute.Working)
		bubble.Advance(time.Millisecond)
		check(t, "status", r.get(id).State.Status, taskroute.Failed)
	})
}

func TestClosedBudgetDoesNotStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := false
		b := newBudget(time.Minute, func(error) { over = true }, errTimeout)
		b.start()
		b.close()
		b.start()
		bubble.Advance(time.Hour)
		check(t, "over", over, false)
	})
}

// None of several that come at once is left without an answer.
func TestTooManyQuestionsAtOnce(t *testing.T) {
	for mood, first := range map[mood]string{works: "", down: "error: the question cannot be kept right now"} {
		inBubble(t, func(t *testing.T, w *world) {
			w.replica(func(o *Options) { o.MaxQuestions = 2 }).call(undeclared)
			up := w.nth(1)
			w.store.set(mood)
			asked := []*question{up.asks(`{}`), up.asks(`{}`), up.asks(`{}`)}
			bubble.Advance(gatherFor)
			check(t, "first", asked[0].answer(), first)
			check(t, "second", asked[1].answer(), first)
			check(t, "third", asked[2].answer(), "error: too many questions want an answer: the limit is 2")
		})
	}
}

func TestTooManyQuestions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica(func(o *Options) { o.MaxQuestions = 2 })
		c := r.call()
		first, second, third := w.nth(1).asks(`{}`), w.nth(1).asks(`{}`), w.nth(1).asks(`{}`)
		check(t, "third", third.answer(), "error: too many questions want an answer: the limit is 2")
		r.answer(c.handle(), `{"q1":{}}`)
		check(t, "first", first.answer(), "{}")
		fourth := w.nth(1).asks(`{}`) // there is room again
		check(t, "fourth", fourth.answer(), "")
		check(t, "second", second.answer(), "")
		w.nth(1).returns(hello)
	})
}
