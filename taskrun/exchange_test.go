package taskrun

import (
	"errors"
	"fmt"
	"testing"

	"taskgate/internal/bubble"
	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// stateWith is an InputRequiredResult that asks nothing.
func stateWith(state string) string {
	return fmt.Sprintf(`{"resultType":"input_required","requestState":%q}`, state)
}

// Nobody is asked, so the gateway itself brings the state back.
func TestARequestStateAloneIsSentBackAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call(atOnce).handle()
		w.nth(1).returns(askingWith(`"name":`+elicit("name?"), "s-1"))
		r.answer(id, `{"q1":{"n":1}}`)
		w.nth(2).returns(stateWith("s-2"))
		again := w.nth(3)
		check(t, "params", string(again.Params.Bytes()), `{"name":"report","arguments":{"n":9007199254740993},"requestState":"s-2"}`)
		if again.ID == w.nth(2).ID {
			t.Error("both have the same id")
		}
		again.returns(hello)
		check(t, "status", r.get(id).State.Status, taskroute.Completed)
	})
}

func TestARequestStateAloneAgainAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call(atOnce).handle()
		for n := range 1 + maxAgain {
			check(t, "status", r.get(id).State.Status, taskroute.Working)
			w.nth(n + 1).returns(stateWith("s"))
		}
		check(t, "status", r.get(id).State.Status, taskroute.Failed)
		check(t, "calls", w.up.count(), 1+maxAgain)
	})
}

// Where no task can be, the client makes the retry, as with any other server.
func TestARequestStateAlonePassesThrough(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.replica().call(undeclared)
		w.nth(1).returns(stateWith("s"))
		check(t, "reply", c.reply(), stateWith("s"))
	})
}

const urlRequired = `{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","url":"https://a.example/","message":"visit"}]}}`

const urlRequest = `{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example/","message":"visit"}}`

func TestURLElicitationRequired(t *testing.T) {
	const urls = `{"elicitation":{"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		c := r.call(declaring(urls))
		w.nth(1).fails(urlRequired)
		id := c.handle()
		check(t, "inputRequests", string(r.get(id).PendingInputs().Bytes()), `{"q1":`+urlRequest+`}`)
		r.answer(id, `{"q1":{"action":"accept"}}`)
		w.nth(2).returns(hello)
		check(t, "status", r.get(id).State.Status, taskroute.Completed)

		c = r.call(declaring(urls), mrtr)
		w.nth(3).fails(urlRequired)
		check(t, "without a task", c.reply(), `{"resultType":"input_required","inputRequests":{"url1":`+urlRequest+`}}`)

		c = r.call(declaring(`{"elicitation":{}}`))
		w.nth(4).fails(urlRequired)
		check(t, "undeclared", c.reply(), urlRequired) // the proxy gives it another code
	})
}

// A call that was held for a question ends with the error: it is made again
// after the answer, under the same decision.
func TestURLElicitationRequiredOfAHeldCall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		caps := declaring(`{"elicitation":{"form":{},"url":{}}}`)
		state, _ := w.ask(r, caps)
		retry := r.resume(state, `{"q1":{}}`, mrtr, caps)
		w.nth(1).fails(urlRequired)
		in := retry.input()
		check(t, "inputRequests", string(in.Requests.Bytes()), `{"q2":`+urlRequest+`}`)
		retry = r.resume(in.State, `{"q2":{"action":"accept"}}`, mrtr, caps)
		w.nth(2).returns(hello)
		retry.reply()
	})
}

// Who did not declare what the tool turns out to need learns what that is.
func TestCallThatFailsForAnUndeclaredCapability(t *testing.T) {
	const roots = `{"roots":{}}`
	refused := upstream.Reply{Error: wire.Raw(`{"code":-32603,"message":"no roots"}`), Undeclared: wire.Raw(roots)}
	failed := upstream.Reply{Result: wire.Raw(`{"content":[],"isError":true}`), Undeclared: wire.Raw(roots)}
	gotOn := upstream.Reply{Result: wire.Raw(hello), Undeclared: wire.Raw(roots)}
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		for n, reply := range []upstream.Reply{refused, failed} {
			c := r.call()
			w.nth(n + 1).end <- ended{reply: reply}
			_, err := c.outcome()
			var rpc *wire.Error
			if !errors.As(err, &rpc) || rpc.Code != wire.CodeMissingCapability || string(rpc.Data) != `{"requiredCapabilities":`+roots+`}` {
				t.Errorf("got %v", err)
			}
		}
		c := r.call()
		w.nth(3).end <- ended{reply: gotOn}
		check(t, "who got on without", c.reply(), hello)

		id := r.call(atOnce).handle() // has been told something else already
		w.nth(4).end <- ended{reply: failed}
		check(t, "task", r.get(id).State.Status, taskroute.Completed)
	})
}

func TestFailedQuestionsAreAllRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		w.store.set(down, "create")
		c := r.call(undeclared)
		first, second := w.nth(1).asks(`{}`), w.nth(1).asks(`{}`)
		bubble.Advance(gatherFor)
		check(t, "first", first.answer(), "error: the question cannot be kept right now")
		check(t, "second", second.answer(), "error: the question cannot be kept right now")
		w.nth(1).returns(hello)
		c.reply()
	})
}
