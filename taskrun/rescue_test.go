package taskrun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskgate/internal/bubble"
	"taskgate/reqcoord"
	"taskgate/taskroute"
	"taskgate/wire"
)

// rescued is how long it may take until a dead replica's records are seen to.
const rescued = leaseTime + leaseTime/2

func reasonOf(t *testing.T, rec *taskroute.Record) string {
	t.Helper()
	reason, _ := wire.String(object(t, string(wire.ParseError(rec.Outcome.Error).Data)).Get("reason"))
	return reason
}

func TestTaskOfADeadReplicaFailsHonestly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.call().handle()
		r.stop()
		rec := other.becomes(id, taskroute.Failed, rescued)
		check(t, "reason", reasonOf(t, rec), "outcome_unknown")
		check(t, "calls", w.up.count(), 1)
		check(t, "rescued", other.counted("records_rescued_total"), 1)
	})
}

func TestCancelledTaskOfADeadReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cut := newFaulty(w.store.Backend)
		r, other := w.replicaOn(cut), w.replica()
		id := r.call().handle()
		r.get(id)
		cut.set(down)
		other.cancelTask(id)
		other.becomes(id, taskroute.Cancelled, rescued)
	})
}

// A call that was held for a question when its replica died, and that cannot be
// found again, ends for whoever brings the answer.
func TestAHeldCallOfADeadReplicaFailsHonestly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		waiting := r.call(mrtr)
		w.nth(1).asks(`{}`)
		in := waiting.input()
		r.stop()
		other := w.replica()
		bubble.Advance(rescued)
		retry := other.resume(in.State, `{"q1":{"action":"accept"}}`, mrtr)
		check(t, "error", strings.Contains(retry.reply(), "outcome_unknown"), true)
		check(t, "calls", w.up.count(), 1)
	})
}

func TestLiveHolderIsNeverRobbed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.call(timeout(0)).handle()
		asking := r.call(timeout(0), mrtr)
		w.nth(2).asks(`{}`)
		asking.input()
		bubble.Advance(50 * time.Minute)
		check(t, "status", other.get(id).State.Status, taskroute.Working)
		check(t, "rescued", other.counted("records_rescued_total")+r.counted("records_rescued_total"), 0)
		check(t, "lapses", r.counted("lease_lapses_total"), 0)
	})
}

func TestLapsedLeaseIsReclaimed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.store.set(down)
		bubble.Advance(5 * leaseTime)
		w.store.set(works)
		bubble.Advance(leaseTime)
		check(t, "lapses", r.counted("lease_lapses_total"), 1)
		rec := r.get(id)
		check(t, "status", rec.State.Status, taskroute.Working)
		check(t, "held by the new incarnation", rec.State.Holder, r.holder())
		check(t, "attempts", rec.State.Attempts, 1)
		other := w.replica()
		bubble.Advance(5 * leaseTime)
		check(t, "status", other.get(id).State.Status, taskroute.Working)
		w.nth(1).returns(hello)
		check(t, "status", other.get(id).State.Status, taskroute.Completed)
		check(t, "calls", w.up.count(), 1)
	})
}

// lapse has the store take the replica, which holds the task, for dead; it does not
// know yet.
func (r *replica) lapse(id string) {
	r.t.Helper()
	r.get(id)
	if err := r.backend.Backend.Retire(r.t.Context(), r.holder()); err != nil {
		r.t.Fatal(err)
	}
}

// The reply that brings the new lease is lost: runs take their records over as soon as
// it is known, and not when they next read them.
func TestRunsFollowALeaseThatCameLate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		r.lapse(id)
		w.store.set(mute, "heartbeat")
		bubble.Advance(leaseTime / 3)
		check(t, "lapses", r.counted("lease_lapses_total"), 1)
		w.store.set(works, "heartbeat")
		bubble.Advance(leaseTime / 3)
		check(t, "held by the new incarnation", r.get(id).State.Holder, r.holder())
	})
}

// The lease has lapsed and its holder does not know yet: its own rescue must
// not take what still runs here for an orphan.
func TestRunnerDoesNotRescueItsOwnRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		r.lapse(id)
		if err := r.rescueOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		check(t, "status", r.get(id).State.Status, taskroute.Working)
		bubble.Advance(2 * leaseTime)
		check(t, "lapses", r.counted("lease_lapses_total"), 1)
		check(t, "status", r.get(id).State.Status, taskroute.Working)
	})
}

// While the store is away all leases lapse. When it is back no replica takes
// another for dead that is only about to renew, however long it was away and
// whoever is first: what was running goes on, and what has ended is written.
func TestNobodyIsRobbedAfterAnOutage(t *testing.T) {
	for _, away := range []time.Duration{leaseTime / 2, leaseTime * 2 / 3, leaseTime * 7 / 10, leaseTime * 3 / 4, leaseTime, 3 * leaseTime} {
		for _, m := range []mood{down, stubborn} {
			for apart := time.Duration(0); apart < leaseTime/3; apart += leaseTime / 12 {
				t.Run(fmt.Sprintf("%v, mood %d, %v apart", away, m, apart), func(t *testing.T) {
					inBubble(t, func(t *testing.T, w *world) {
						a := w.replica()
						bubble.Advance(apart)
						b := w.replica()
						done, runs := a.call(timeout(0)).handle(), b.call(timeout(0)).handle()
						bubble.Advance(leaseTime)
						w.store.set(m)
						w.nth(1).returns(hello)
						bubble.Advance(away)
						w.store.set(works)
						bubble.Advance(3 * leaseTime)
						check(t, "status of what has ended", b.get(done).State.Status, taskroute.Completed)
						check(t, "status of what runs", a.get(runs).State.Status, taskroute.Working)
						check(t, "runs given up", a.counted("runs_fenced_total")+b.counted("runs_fenced_total"), 0)
						b.stop()
						a.becomes(runs, taskroute.Failed, rescued)
					})
				})
			}
		}
	}
}

// A replica that was cut off from the store comes back with a result after its
// record was given up.
func TestZombieIsFenced(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cut := newFaulty(w.store.Backend)
		r, other := w.replicaOn(cut), w.replica()
		id, late := r.call().handle(), r.call().handle()
		cut.set(down)
		rec := other.becomes(id, taskroute.Failed, 2*rescued)
		check(t, "reason", reasonOf(t, rec), "outcome_unknown")
		w.nth(1).returns(hello)
		cut.set(works)
		bubble.Advance(leaseTime)
		check(t, "revision", other.get(id).Revision, rec.Revision)
		check(t, "results dropped", r.counted("outcomes_dropped_total"), 1)
		check(t, "cause of the other call's end", w.nth(2).cause(), errLost)
		check(t, "status", other.get(late).State.Status, taskroute.Failed)
		check(t, "runs here", isEmpty(&r.own), true)
	})
}

func TestOneOfManyTakesTheOrphan(t *testing.T) {
	const rounds, replicas = 30, 4
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		var others []*replica
		for range replicas {
			others = append(others, w.replica())
		}
		for i := range rounds {
			id := r.call().handle()
			w.nth(2*i + 1).returns(asking(`"name":` + elicit("name?")))
			_, err := r.store.UpdateAny(t.Context(), id, func(rec *taskroute.Record) error {
				_, err := rec.Answer(object(t, `{"q1":{}}`), time.Now())
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			bubble.Advance(leaseTime)
			for _, o := range others {
				go func() { _ = o.rescueOnce(context.Background()) }()
			}
			check(t, "calls", w.up.count(), 2*i+2)
			w.nth(2*i + 2).returns(hello)
			check(t, "status", r.get(id).State.Status, taskroute.Completed)
		}
	})
}

// Two in one process, whose claims fail at first: one of them must not take the
// other's for its own.
func TestOneProcessClaimsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.nth(1).returns(asking(`"name":` + elicit("name?")))
		w.store.set(down, "replace")
		_ = r.Update(t.Context(), ann, id, object(t, `{"q1":{}}`))
		other := w.replicaOn(newFaulty(w.store.Backend)) // only to write the answer
		if _, err := other.store.UpdateAny(t.Context(), id, func(rec *taskroute.Record) error {
			_, err := rec.Answer(object(t, `{"q1":{}}`), time.Now())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			go func() { _ = r.proceed(context.Background(), id, 0) }()
		}
		bubble.Advance(20 * time.Millisecond)
		w.store.set(works)
		bubble.Advance(time.Second)
		check(t, "calls", w.up.count(), 2)
	})
}

// However many give the last answer, at however many replicas, the upstream is
// called once with what the record took first.
func TestLastAnswerFromManySides(t *testing.T) {
	const sides = 64
	inBubble(t, func(t *testing.T, w *world) {
		replicas := []*replica{w.replica(), w.replica(), w.replica()}
		id := replicas[0].call().handle()
		w.nth(1).returns(asking(`"name":` + elicit("name?")))
		var wg sync.WaitGroup
		for i := range sides {
			wg.Go(func() { replicas[i%3].answer(id, fmt.Sprintf(`{"q1":{"side":%d},"q%d":{}}`, i, i+2)) })
		}
		wg.Wait()
		bubble.Advance(3 * leaseTime)
		check(t, "calls", w.up.count(), 2)
		w.nth(2).returns(hello)
		check(t, "status", replicas[1].get(id).State.Status, taskroute.Completed)
	})
}

func TestManyOrphansAndADamagedOne(t *testing.T) {
	const many = 2*rescuePage + 50
	inBubble(t, func(t *testing.T, w *world) {
		for i := range many {
			doc := taskroute.Doc{ID: taskroute.NewID(), Open: true, Runnable: true, Holder: "the dead", Owner: ann.String(),
				Parts: [taskroute.NumParts][]byte{[]byte(`{"owner":{"tenant":"acme","subject":"ann"},"kind":"task","status":"working","holder":"the dead","epoch":1}`)}}
			if i%50 == 7 {
				doc.ID = "AAAA" + doc.ID[4:] // comes first
				doc.Parts[taskroute.PartState] = []byte(`{"status":`)
			}
			if err := w.store.Create(t.Context(), doc, doc.ID); err != nil {
				t.Fatal(err)
			}
		}
		r := w.replica()
		synctest.Wait()
		check(t, "open records", w.open(ann), many/50)
		check(t, "rescued", r.counted("records_rescued_total"), many-many/50)
		if err := r.rescueOnce(t.Context()); !errors.Is(err, taskroute.ErrUnreadable) {
			t.Errorf("got %v, want that a record cannot be read", err)
		}
	})
}

// distant is a Backend that is a round trip away.
type distant struct{ taskroute.Backend }

func (d distant) Get(ctx context.Context, id string, parts ...taskroute.Part) (taskroute.Doc, error) {
	<-time.After(time.Millisecond)
	return d.Backend.Get(ctx, id, parts...)
}

// However many replicas find the orphans of a dead one at the same moment, each
// orphan is read twice to be ended, within two leases; beyond that a replica reads, in
// each of its turns, about what it meets others at on maxMet pages, before and after
// they have written.
func TestRescuersLeaveTheRestToEachOther(t *testing.T) {
	const many, rescuers = 5 * rescuePage, 50
	inBubble(t, func(t *testing.T, w *world) {
		for range many {
			doc := taskroute.Doc{ID: taskroute.NewID(), Open: true, Runnable: true, Holder: "the dead", Owner: ann.String(),
				Parts: [taskroute.NumParts][]byte{[]byte(`{"owner":{"tenant":"acme","subject":"ann"},"kind":"task","status":"working","holder":"the dead","epoch":1}`)}}
			if err := w.store.Create(t.Context(), doc, doc.ID); err != nil {
				t.Fatal(err)
			}
		}
		far := newFaulty(distant{w.store.Backend})
		for range rescuers {
			w.replicaOn(far)
		}
		began := time.Now()
		for ; w.open(ann) > 0; bubble.Advance(time.Second) {
			if time.Since(began) > 2*leaseTime {
				t.Fatalf("%d records are open after %v", w.open(ann), time.Since(began))
			}
		}
		turns := 1 + int(time.Since(began)/(leaseTime/2))
		if reads, most := far.count("get"), 2*many+turns*rescuers*2*maxMet; reads > most {
			t.Errorf("%d reads for %d orphans in %d turns, want at most %d", reads, many, turns, most)
		}
	})
}

// A record that a newer version has written, in a form of its own, is left to it.
func TestRecordOfANewerVersionIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		doc := taskroute.Doc{ID: taskroute.NewID(), Open: true, Runnable: true, Holder: "the dead", Owner: ann.String(),
			Parts: [taskroute.NumParts][]byte{[]byte(`{"format":1,"owner":{"tenant":"acme","subject":"ann"},"kind":"task","status":"working","holder":"the dead"}`)}}
		if err := w.store.Create(t.Context(), doc, doc.ID); err != nil {
			t.Fatal(err)
		}
		r := w.replica()
		bubble.Advance(3 * leaseTime)
		if _, err := r.Get(t.Context(), ann, doc.ID); !errors.Is(err, taskroute.ErrNewer) {
			t.Errorf("get says %v, want %v", err, taskroute.ErrNewer)
		}
		if err := r.Cancel(t.Context(), ann, doc.ID); !errors.Is(err, taskroute.ErrNewer) {
			t.Errorf("cancel says %v, want %v", err, taskroute.ErrNewer)
		}
		kept, err := w.store.Get(t.Context(), doc.ID, taskroute.PartState)
		if err != nil || kept.Revision != 1 {
			t.Errorf("revision %d, error %v; want it as it was", kept.Revision, err)
		}
		check(t, "failed looks", r.counted("housekeeping_errors_total"), 0)
	})
}

func TestIdempotentCallIsSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var cuts []*faulty
		var replicas []*replica
		for range 3 {
			cuts = append(cuts, newFaulty(w.store.Backend))
			replicas = append(replicas, w.replicaOn(cuts[len(cuts)-1]))
		}
		id := replicas[0].call(reruns(2)).handle()
		w.nth(1).asks(`{"message":"name?"}`)
		check(t, "status", replicas[2].get(id).State.Status, taskroute.InputRequired)
		cuts[0].set(down)
		rec := replicas[2].becomes(id, taskroute.Working, 2*rescued)
		check(t, "attempts", rec.State.Attempts, 2)
		check(t, "calls", w.up.count(), 2)
		check(t, "params", string(w.nth(2).Params.Bytes()), string(w.nth(1).Params.Bytes()))
		q := w.nth(2).asks(`{"message":"name?"}`) // under a key of its own again
		replicas[2].answer(id, `{"q1":{"old":1},"q2":{"new":1}}`)
		bubble.Advance(recheck)
		check(t, "answer", q.answer(), `{"new":1}`)
		for i, r := range replicas[1:] {
			if !isEmpty(&r.own) {
				cuts[i+1].set(down)
			}
		}
		last := w.replica()
		check(t, "reason", reasonOf(t, last.becomes(id, taskroute.Failed, 2*rescued)), "outcome_unknown")
		check(t, "calls", w.up.count(), 2)
	})
}

// A thousand calls of a dead replica that are sent again go to the upstream a few
// at a time, and none fails for want of a turn; new calls have their turns between.
func TestMassRescueDoesNotFloodTheUpstream(t *testing.T) {
	const many, atATime = 1000, 10
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		for range many {
			r.call(reruns(2), atOnce).handle()
		}
		r.stop()
		w.limits = map[string]reqcoord.Limits{"up": {Concurrency: atATime, Queue: 5, QueueTimeout: time.Second}}
		other := w.replica()
		bubble.Advance(rescued)
		check(t, "open records", w.open(ann), many)
		check(t, "calls sent again", w.up.count(), many+atATime)
		fresh := other.call(by(bob))
		for n := 1; n <= many+1; n++ {
			if running := w.up.count() - many - (n - 1); running > atATime {
				t.Fatalf("%d calls at once, want at most %d", running, atATime)
			}
			w.nth(many + n).returns(hello)
			if n == 2*atATime && fresh.waits() {
				t.Error("a new call of somebody else waits behind all that are sent again")
			}
		}
		check(t, "open records", w.open(ann), 0)
		check(t, "ended", other.counted("records_ended_total"), many)
	})
}

func TestCancelledCallIsNotSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cut := newFaulty(w.store.Backend)
		r, other := w.replicaOn(cut), w.replica()
		id := r.call(reruns(5)).handle()
		r.get(id)
		cut.set(down)
		other.cancelTask(id)
		other.becomes(id, taskroute.Cancelled, 2*rescued)
		check(t, "calls", w.up.count(), 1)
	})
}

func TestRerunWithoutAReply(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		cut, second := newFaulty(w.store.Backend), newFaulty(w.store.Backend)
		r, other := w.replicaOn(cut), w.replicaOn(second)
		id := r.call(reruns(5)).handle()
		r.get(id)
		cut.set(down)
		second.set(mute, "replace")
		bubble.Advance(2 * rescued)
		second.set(works)
		bubble.Advance(time.Second)
		check(t, "calls", w.up.count(), 2)
		w.nth(2).returns(hello)
		check(t, "status", other.get(id).State.Status, taskroute.Completed)
	})
}

func TestRecordThatCannotBeSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		rec := taskroute.NewRecord(taskroute.NewID(), ann, taskroute.Task, "", time.Now())
		rec.Request.Params, rec.Request.Decision = wire.Raw(`[]`), wire.Raw(`{}`)
		if err := r.store.Create(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		r.becomes(rec.ID, taskroute.Failed, 2*leaseTime)
		check(t, "calls", w.up.count(), 0)
	})
}
