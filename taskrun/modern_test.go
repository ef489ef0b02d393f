package taskrun

import (
	"fmt"
	"testing"
	"time"

	"taskgate/internal/bubble"
	"taskgate/taskroute"
	"taskgate/wire"
)

// asking is a modern upstream's InputRequiredResult with these input requests.
func asking(requests string) string {
	return `{"resultType":"input_required","inputRequests":{` + requests + `}}`
}

func askingWith(requests, state string) string {
	return fmt.Sprintf(`{"resultType":"input_required","inputRequests":{%s},"requestState":%q}`, requests, state)
}

func elicit(message string) string {
	return fmt.Sprintf(`{"method":"elicitation/create","params":{"message":%q}}`, message)
}

func TestFirstQuestionOfAModernUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		c := r.call()
		w.nth(1).returns(askingWith(`"name":`+elicit("name?")+`,"age":`+elicit("age?"), "s-1"))
		id := c.handle()
		rec := r.get(id)
		check(t, "status", rec.State.Status, taskroute.InputRequired)
		check(t, "inputRequests", string(rec.PendingInputs().Bytes()), `{"q1":`+elicit("name?")+`,"q2":`+elicit("age?")+`}`)
		check(t, "runs here", isEmpty(&r.own), true)

		r.answer(id, `{"q1":{"action":"accept","content":{"n":1.0}}}`)
		check(t, "calls with one answer missing", w.up.count(), 1)
		r.answer(id, `{"q2":{"action":"decline"}}`)
		retry := w.nth(2)
		check(t, "params of the retry", string(retry.Params.Bytes()),
			`{"name":"report","arguments":{"n":9007199254740993},`+
				`"inputResponses":{"name":{"action":"accept","content":{"n":1.0}},"age":{"action":"decline"}},"requestState":"s-1"}`)
		retry.returns(hello)
		check(t, "status", r.get(id).State.Status, taskroute.Completed)
	})
}

func isEmpty(m interface{ Range(func(k, v any) bool) }) bool {
	empty := true
	m.Range(func(any, any) bool { empty = false; return false })
	return empty
}

// The upstream may use a key again in its next round; in the task it may not
// come again.
func TestReusedKeysOfAModernUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		for round, state := range []string{"s-1", "", "s-3"} {
			w.nth(round + 1).returns(askingWith(`"name":`+elicit("name?"), state))
			key := fmt.Sprintf("q%d", round+1)
			check(t, "pending", string(r.get(id).PendingInputs().Bytes()), `{"`+key+`":`+elicit("name?")+`}`)
			r.answer(id, fmt.Sprintf(`{"name":{},"q0":{},%q:{"round":%d}}`, key, round))
			params := w.nth(round + 2).Params
			check(t, "answers", string(params.Get("inputResponses")), fmt.Sprintf(`{"name":{"round":%d}}`, round))
			check(t, "state", string(params.Get("requestState")), fmt.Sprintf("%q", state))
		}
	})
}

// An upstream without a requestState remembers nothing, so it is told
// everything again.
func TestAnswersOfAllRoundsWithoutARequestState(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.nth(1).returns(asking(`"name":` + elicit("name?")))
		r.answer(id, `{"q1":{"round":1}}`)
		w.nth(2).returns(asking(`"age":` + elicit("age?")))
		r.answer(id, `{"q2":{"round":2}}`)
		check(t, "answers", string(w.nth(3).Params.Get("inputResponses")), `{"name":{"round":1},"age":{"round":2}}`)
		check(t, "state", string(w.nth(3).Params.Get("requestState")), "")
	})
}

func TestUndeclaredKindOfQuestion(t *testing.T) {
	const declared = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	const roots = `"r":{"method":"roots/list"}`
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		c := r.call(declaring(declared))
		w.nth(1).returns(asking(`"a":` + elicit("name?") + `,` + roots))
		_, err := c.outcome()
		check(t, "code", WireError(err).Code, wire.CodeMissingCapability)
		check(t, "data", string(WireError(err).Data), `{"requiredCapabilities":{"roots":{}}}`)
		check(t, "records", w.store.count("create"), 0)

		id := r.call(declaring(declared)).handle()
		w.nth(2).returns(asking(roots))
		rec := r.get(id)
		check(t, "status", rec.State.Status, taskroute.Failed)
		check(t, "code", wire.ParseError(rec.Outcome.Error).Code, wire.CodeMissingCapability)
	})
}

// With input: mrtr, or without the extension, the upstream's own result goes
// out: the client retries, with the upstream's keys and state.
func TestQuestionOfAModernUpstreamPassesThrough(t *testing.T) {
	for name, adjust := range map[string]func(*Call){"mrtr": mrtr, "undeclared": undeclared} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.replica().call(adjust)
				w.nth(1).returns(askingWith(`"name":`+elicit("name?"), "s-1"))
				check(t, "reply", c.reply(), askingWith(`"name":`+elicit("name?"), "s-1"))
				check(t, "records", w.store.count("create"), 0)
			})
		})
	}
}

func TestQuestionWhileTheStoreIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.replica().call()
		w.store.set(down, "create")
		w.nth(1).returns(asking(`"name":` + elicit("name?")))
		check(t, "reply", c.reply(), asking(`"name":`+elicit("name?")))
	})
}

func TestQuestionWithoutARequest(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.nth(1).returns(`{"resultType":"input_required"}`)
		check(t, "status", r.get(id).State.Status, taskroute.Failed)
	})
}

func TestParkedTaskSurvivesItsReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := w.replica()
		id := first.call().handle()
		w.nth(1).returns(asking(`"name":` + elicit("name?")))
		check(t, "status", first.get(id).State.Status, taskroute.InputRequired)
		first.stop()
		bubble.Advance(10 * leaseTime)
		second := w.replica()
		bubble.Advance(10 * leaseTime)
		check(t, "status", second.get(id).State.Status, taskroute.InputRequired)
		second.answer(id, `{"q1":{}}`)
		w.nth(2).returns(hello)
		check(t, "status", second.get(id).State.Status, taskroute.Completed)
	})
}

func TestAnsweredTaskIsTakenUpByARescue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.call().handle()
		w.nth(1).returns(asking(`"name":` + elicit("name?")))
		_, err := r.store.UpdateAny(t.Context(), id, func(rec *taskroute.Record) error { // by a replica that died right then
			_, err := rec.Answer(object(t, `{"q1":{}}`), time.Now())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		check(t, "calls", w.up.count(), 1)
		bubble.Advance(2 * leaseTime)
		check(t, "calls", w.up.count(), 2)
	})
}
