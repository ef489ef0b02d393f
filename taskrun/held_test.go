package taskrun

import (
	"context"
	"strings"
	"testing"
	"time"

	"taskgate/internal/bubble"
	"taskgate/policy"
	"taskgate/taskroute"
)

// ask makes a call whose first question goes out as an InputRequiredResult.
func (w *world) ask(r *replica, adjust ...func(*Call)) (state string, q *question) {
	w.t.Helper()
	n := w.up.count()
	c := r.call(append([]func(*Call){mrtr}, adjust...)...)
	q = w.nth(n + 1).asks(`{"message":"name?"}`)
	in := c.input()
	check(w.t, "inputRequests", string(in.Requests.Bytes()), `{"q1":{"method":"elicitation/create","params":{"message":"name?"}}}`)
	check(w.t, "state is ours", OwnsState(in.State), true)
	return in.State, q
}

func TestHeldCallGoesOnWithTheAnswer(t *testing.T) {
	for name, adjust := range map[string]func(*Call){
		"mrtr": mrtr, "undeclared": undeclared, "forbidden": task(policy.Forbidden), "at once but undeclared": func(c *Call) { undeclared(c); after(0)(c) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.replica()
				state, q := w.ask(r, adjust)
				bubble.Advance(10 * time.Minute) // people think
				retry := r.resume(state, `{"q1":{"action":"accept"},"other":{}}`, mrtr, adjust)
				check(t, "answer", q.answer(), `{"action":"accept"}`)
				bubble.Advance(promoteAfter / 2)
				w.nth(1).returns(hello)
				check(t, "reply", retry.reply(), hello[:len(hello)-1]+`,"resultType":"complete"}`)
				check(t, "calls at the upstream", w.up.count(), 1)
			})
		})
	}
}

func TestHeldCallIsNoTask(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		state, _ := w.ask(r)
		id := strings.Split(state, ".")[1]
		_, errGet := r.Get(t.Context(), ann, id)
		check(t, "get", errGet, error(taskroute.ErrNotFound))
		check(t, "update", r.Update(t.Context(), ann, id, object(t, `{"q1":{}}`)), error(taskroute.ErrNotFound))
		check(t, "cancel", r.Cancel(t.Context(), ann, id), error(taskroute.ErrNotFound))
	})
}

func TestBadRequestState(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		state, q := w.ask(r)
		flipped := state[:len(state)-1] + string('A'+(state[len(state)-1]-'A'+1)%26)
		for name, c := range map[string]*client{
			"tampered":         r.resume(flipped, `{"q1":{}}`, mrtr),
			"no ticket":        r.resume(state[:strings.LastIndex(state, ".")], `{"q1":{}}`, mrtr),
			"empty ticket":     r.resume(state[:strings.LastIndex(state, ".")+1], `{"q1":{}}`, mrtr),
			"made up":          r.resume("tg."+taskroute.NewID()+".X", `{"q1":{}}`, mrtr),
			"no id":            r.resume("tg.{x}.y", `{"q1":{}}`, mrtr),
			"foreign":          r.resume(state, `{"q1":{}}`, mrtr, by(bob)),
			"other tool":       r.resume(state, `{"q1":{}}`, mrtr, func(c *Call) { c.Tool = "delete" }),
			"other upstream":   r.resume(state, `{"q1":{}}`, mrtr, func(c *Call) { c.Upstream = "down" }),
			"other arguments":  r.resume(state, `{"q1":{}}`, mrtr, arguments(`{"n":9007199254740992}`)), // the same as a float
			"missing argument": r.resume(state, `{"q1":{}}`, mrtr, arguments(`{}`)),
		} {
			if _, err := c.outcome(); err != ErrBadState {
				t.Errorf("%s: got %v, want %v", name, err, ErrBadState)
			}
		}
		check(t, "answer", q.answer(), "")
		r.resume(state, `{"q1":{"ok":true}}`, mrtr, arguments(` { "n" : 9007199254740993 } `)) // none of them spoilt it
		check(t, "answer", q.answer(), `{"ok":true}`)
		r.resume(state, `{"q1":{}}`, mrtr).fails(ErrBadState) // replayed
	})
}

// A prompt, or a resource, is held as a tool is.
func TestAPromptThatAsksIsHeld(t *testing.T) {
	prompt := func(c *Call) { c.Method, c.Tool, c.Decision.Task = "prompts/get", "greeting", policy.Forbidden }
	inBubble(t, func(t *testing.T, w *world) {
		w.store.talks = true
		r, other := w.replica(), w.replica()
		state, q := w.ask(r, prompt)
		check(t, "method", w.nth(1).Method, "prompts/get")
		r.resume(state, `{"q1":{}}`, mrtr, prompt, func(c *Call) { c.Method = "" }).fails(ErrBadState) // a tool of that name
		retry := other.resume(state, `{"q1":{"n":1}}`, mrtr, prompt)
		check(t, "answer", q.answer(), `{"n":1}`)
		w.nth(1).returns(`{"messages":[]}`)
		check(t, "reply", retry.reply(), `{"messages":[],"resultType":"complete"}`)
	})
}

func TestExpiredRequestState(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		state, _ := w.ask(r, ttl(time.Minute))
		bubble.Advance(time.Minute)
		r.resume(state, `{"q1":{}}`, mrtr).fails(ErrBadState)
		check(t, "cause", w.nth(1).cause(), errExpired)
		bubble.Advance(2 * time.Minute) // collected
		r.resume(state, `{"q1":{}}`, mrtr).fails(ErrBadState)
	})
}

func TestPartialAnswerAsksAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		state, first := w.ask(r)
		second := w.nth(1).asks(`{"message":"age?"}`)
		in := r.resume(state, `{"q1":{"n":1}}`, mrtr).input()
		check(t, "inputRequests", string(in.Requests.Bytes()), `{"q2":{"method":"elicitation/create","params":{"message":"age?"}}}`)
		check(t, "first answer", first.answer(), `{"n":1}`)
		if in.State == state {
			t.Error("the old state was given out again")
		}
		r.resume(state, `{"q2":{}}`, mrtr).fails(ErrBadState)
		none := r.resume(in.State, `{}`, mrtr).input()
		check(t, "inputRequests", string(none.Requests.Bytes()), string(in.Requests.Bytes()))
		retry := r.resume(none.State, `{"q2":{"n":2}}`, mrtr)
		check(t, "second answer", second.answer(), `{"n":2}`)
		w.nth(1).returns(hello)
		retry.reply()
	})
}

func TestFurtherQuestionDuringTheRetry(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		state, _ := w.ask(r)
		retry := r.resume(state, `{"q1":{}}`, mrtr)
		w.nth(1).asks(`{"message":"age?"}`)
		in := retry.input()
		check(t, "inputRequests", string(in.Requests.Bytes()), `{"q2":{"method":"elicitation/create","params":{"message":"age?"}}}`)
	})
}

func TestQuestionsAskedTogetherGoOutTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		keys := func(c *client) (keys string, state string) {
			in := c.input()
			for _, m := range in.Requests {
				keys += m.Name + " "
			}
			return keys, in.State
		}
		first := r.call(mrtr)
		answers := []*question{w.nth(1).asks(`{"message":"name?"}`), w.nth(1).asks(`{"message":"age?"}`)}
		asked, state := keys(first)
		check(t, "asked", asked, "q1 q2 ")

		retry := r.resume(state, `{"q1":{"n":1},"q2":{"n":2}}`, mrtr)
		check(t, "first answer", answers[0].answer(), `{"n":1}`)
		check(t, "second answer", answers[1].answer(), `{"n":2}`)
		w.nth(1).asks(`{"message":"town?"}`)
		w.nth(1).asks(`{"message":"street?"}`)
		asked, _ = keys(retry)
		check(t, "asked after the retry", asked, "q3 q4 ")
	})
}

func TestPromotionOnTheRetry(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		state, _ := w.ask(r)
		retry := r.resume(state, `{"q1":{}}`, mrtr)
		bubble.Advance(promoteAfter)
		id := retry.handle()
		retry.hangUp()
		r.resume(state, `{}`, mrtr).fails(ErrBadState)
		bubble.Advance(time.Minute)
		check(t, "status", r.get(id).State.Status, taskroute.Working)
		w.nth(1).returns(hello)
		check(t, "status", r.get(id).State.Status, taskroute.Completed)
	})
}

func TestNoPromotionOnTheRetryWithoutTheExtension(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		state, _ := w.ask(r)
		retry := r.resume(state, `{"q1":{}}`, mrtr, undeclared) // it was declared before, but not on this request
		bubble.Advance(time.Minute)
		if !retry.waits() {
			t.Fatal("the client was told something")
		}
		w.nth(1).returns(hello)
		retry.reply()
	})
}

// The retry goes on under the decision that the call began with.
func TestPolicyReloadDuringAHeldCall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		state, _ := w.ask(r, task(policy.Forbidden))
		retry := r.resume(state, `{"q1":{}}`, mrtr)
		bubble.Advance(time.Minute)
		if !retry.waits() {
			t.Fatal("promoted, though it began as forbidden")
		}
		w.nth(1).returns(hello)
		retry.reply()
	})
}

func TestHangUpDuringTheRetryCancels(t *testing.T) {
	for name, m := range map[string]mood{"store works": works, "store is down for a while": down, "store hangs for a while": hangs} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.replica()
				state, _ := w.ask(r)
				retry := r.resume(state, `{"q1":{}}`, mrtr)
				w.store.set(m, "replace", "get")
				retry.hangUp()
				retry.fails(context.Canceled)
				bubble.Advance(storeTimeout)
				w.store.set(works)
				bubble.Advance(time.Second)
				check(t, "cause", w.nth(1).cause(), errCancelled)
				check(t, "open records", w.open(ann), 0)
			})
		})
	}
}

func TestLeavingWithAQuestionCancelsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		state, q := w.ask(r)
		in := r.resume(state, `{}`, mrtr)
		in.input()
		in.hangUp() // as every client does after an answer
		bubble.Advance(time.Minute)
		check(t, "cause", w.nth(1).cause(), nil)
		r.resume(in.input().State, `{"q1":{}}`, mrtr)
		check(t, "answer", q.answer(), `{}`)
	})
}

func TestHeldCallThatEndedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		state, _ := w.ask(r)
		w.nth(1).fails(`{"code":-32050,"message":"gave up"}`)
		check(t, "reply", r.resume(state, `{"q1":{}}`, mrtr).reply(), `{"code":-32050,"message":"gave up"}`)
	})
}

// The retry may land on any replica; hints only make it quicker.
func TestRetryAtAnotherReplica(t *testing.T) {
	for name, hints := range map[string]bool{"with hints": true, "without hints": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.store.talks = hints
				r, other := w.replica(), w.replica()
				state, q := w.ask(r)
				began := time.Now()
				retry := other.resume(state, `{"q1":{"n":1}}`, mrtr, undeclared)
				if !hints {
					bubble.Advance(recheck)
				}
				check(t, "answer", q.answer(), `{"n":1}`)
				w.nth(1).returns(hello)
				retry.reply()
				if took := time.Since(began); hints && took > 0 || took > 2*recheck {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestStoreAwayDuringTheRetry(t *testing.T) {
	for name, m := range map[string]mood{"down": down, "hanging": hangs, "mute": mute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.replica()
				state, q := w.ask(r)
				w.store.set(m, "get")
				c := r.resume(state, `{"q1":{}}`, mrtr)
				bubble.Advance(storeTimeout)
				c.fails(ErrStore)
				w.store.set(works)
				retry := r.resume(state, `{"q1":{}}`, mrtr)
				check(t, "answer", q.answer(), `{}`)
				w.store.set(m, "get", "replace")
				bubble.Advance(time.Minute)
				if !retry.waits() {
					t.Fatal("the client lost its call with the store")
				}
				w.store.set(works)
				bubble.Advance(recheck + promoteAfter)
				w.nth(1).returns(hello)
				id := retry.handle()
				check(t, "status", r.get(id).State.Status, taskroute.Completed)
			})
		})
	}
}
