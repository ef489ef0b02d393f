package taskrun

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"taskgate/internal/bubble"
	"taskgate/taskroute"
)

func TestStoreDownAtCreateKeepsTheCallSynchronous(t *testing.T) {
	for name, m := range map[string]mood{"down": down, "hanging": hangs, "mute": mute, "late": late} {
		for kind, adjust := range map[string]func(*Call){"slow": after(promoteAfter), "at once": atOnce} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					r := w.replica()
					w.store.set(m, "create", "get", "replace", "count")
					c := r.call(adjust)
					bubble.Advance(promoteAfter + 3*recheck)
					if !c.waits() {
						t.Fatal("the client was told something")
					}
					w.nth(1).returns(hello)
					if c.waits() {
						t.Fatal("the answer waits for the store")
					}
					check(t, "reply", c.reply(), hello)
					check(t, "calls at the upstream", w.up.count(), 1)
					w.store.set(works)
					bubble.Advance(2 * time.Minute)
					check(t, "open records", w.open(ann), 0)
				})
			})
		}
	}
}

func TestAnswerDoesNotWaitForAStoreThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		w.store.set(hangs, "create")
		c := r.call()
		bubble.Advance(promoteAfter + storeTimeout/2)
		w.nth(1).returns(hello)
		if c.waits() {
			t.Error("the answer waits for the store")
		}
	})
}

func TestPromotedOnceTheStoreIsBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		w.store.set(down)
		c := r.call()
		bubble.Advance(time.Minute) // longer than the lease
		w.store.set(works)
		if !c.waits() {
			t.Fatal("the client was told something")
		}
		bubble.Advance(leaseTime/3 + recheck)
		if c.waits() {
			t.Fatal("not promoted although the store is back")
		}
		id := c.handle()
		other := w.replica()
		bubble.Advance(2 * leaseTime)
		check(t, "status", other.get(id).State.Status, taskroute.Working)
		w.nth(1).returns(hello)
		check(t, "status", other.get(id).State.Status, taskroute.Completed)
	})
}

func TestNoRecordUnderALeaseInDoubt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		w.store.set(down, "heartbeat")
		bubble.Advance(leaseTime)
		c := r.call(atOnce)
		if !c.waits() {
			t.Fatal("a handle was given out that others would take for an orphan's")
		}
		w.store.set(works)
		c.handle()
		check(t, "calls at the upstream", w.up.count(), 1)
	})
}

func TestResultIsWrittenWhenTheStoreIsBack(t *testing.T) {
	for name, m := range map[string]mood{"down": down, "hanging": hangs, "mute": mute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.replica()
				id := r.call().handle()
				w.store.set(m, "replace", "get")
				w.nth(1).returns(hello)
				bubble.Advance(time.Minute)
				check(t, "ends that wait for the store", r.counted("outcomes_unwritten"), 1)
				w.store.set(works)
				rec := r.becomes(id, taskroute.Completed, 3*time.Second)
				check(t, "ends that wait for the store", r.counted("outcomes_unwritten"), 0)
				check(t, "result", string(rec.Outcome.Result), hello[:len(hello)-1]+`,"resultType":"complete"}`)
			})
		})
	}
}

// An end, or a question of a modern upstream, that was written but for whose
// write no reply came, is not taken for somebody else's doing.
func TestLastWriteWithoutAReply(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		want  taskroute.Status
		ended float64
	}{
		"completed": {hello, taskroute.Completed, 1},
		"parked":    {asking(`"a":` + elicit("name?")), taskroute.InputRequired, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				log, logged := observer.New(zap.WarnLevel)
				r := w.replica(func(o *Options) { o.Log = zap.New(log) })
				id := r.call().handle()
				w.store.set(mute, "replace")
				w.nth(1).returns(c.reply)
				bubble.Advance(10 * time.Millisecond)
				w.store.set(works)
				bubble.Advance(time.Second)
				check(t, "status", r.get(id).State.Status, c.want)
				check(t, "ended", r.counted("records_ended_total"), c.ended)
				check(t, "dropped", r.counted("outcomes_dropped_total"), 0)
				check(t, "writes tried again", r.counted("store_write_retries_total"), 1)
				check(t, "warnings", logged.Len(), 0)
			})
		})
	}
}

func TestResultOutlivesALapsedLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.store.set(down)
		w.nth(1).returns(hello)
		bubble.Advance(3 * leaseTime)
		w.store.set(works)
		r.becomes(id, taskroute.Completed, 3*time.Second)
	})
}

func TestQuestionWhoseWriteHadNoReplyIsAskedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.store.set(mute, "replace")
		q := w.nth(1).asks(`{"message":"sure?"}`)
		w.store.set(works)
		rec := r.becomes(id, taskroute.InputRequired, time.Second)
		check(t, "inputRequests", string(rec.PendingInputs().Bytes()), `{"q1":{"method":"elicitation/create","params":{"message":"sure?"}}}`)
		bubble.Advance(time.Second)
		r.answer(id, `{"q1":{"action":"accept"}}`)
		check(t, "status", r.get(id).State.Status, taskroute.Working)
		check(t, "answer", q.answer(), `{"action":"accept"}`)
	})
}

func TestFailedQuestionIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		c := r.call()
		w.store.set(down, "create")
		q := w.nth(1).asks(`{"message":"sure?"}`)
		check(t, "answer", q.answer(), "error: the question cannot be kept right now")
		w.nth(1).returns(hello)
		check(t, "reply", c.reply(), hello)
	})
}

// A claim whose reply was lost is the claimant's all the same.
func TestClaimWithoutAReply(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.nth(1).returns(asking(`"a":` + elicit("name?")))
		r.answer(id, `{"q1":{"action":"accept"}}`) // writes, so the store may fall silent only now
		check(t, "calls at the upstream", w.up.count(), 2)
		w.nth(2).returns(asking(`"a":` + elicit("age?")))
		w.store.set(mute, "replace")
		if err := r.Update(t.Context(), ann, id, object(t, `{"q2":{"action":"accept"}}`)); err == nil {
			t.Fatal("an update without a reply was acknowledged")
		}
		r.answer(id, `{"q2":{"action":"accept"}}`) // the client asks again; there is nothing to write
		bubble.Advance(200 * time.Millisecond)
		w.store.set(works)
		bubble.Advance(3 * leaseTime)
		check(t, "calls at the upstream", w.up.count(), 3)
		w.nth(3).returns(hello)
		check(t, "status", r.get(id).State.Status, taskroute.Completed)
	})
}

// A lease lapses while the store is away; the run goes on under a new name even
// if it has to try twice to write it.
func TestReclaimWithoutAReply(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.store.set(down)
		bubble.Advance(2 * leaseTime)
		w.store.set(works)
		w.store.set(mute, "replace")
		bubble.Advance(leaseTime) // a new incarnation, and a reclaim that seems to fail
		w.store.set(works)
		w.nth(1).returns(hello)
		check(t, "status", r.get(id).State.Status, taskroute.Completed)
		check(t, "lapses", r.counted("lease_lapses_total"), 1)
		check(t, "runs given up", r.counted("runs_fenced_total"), 0)
	})
}
