package legacyfront

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"taskgate/wire"
)

// Why a question was not answered.
var (
	errCannotAsk = errors.New("the server has a question, and it cannot be asked: the client's header Accept must name text/event-stream, and the store must be reachable")
	errGoesOn    = errors.New("the server asks nothing and does not answer either")
)

// maxAgain is how often in a row a server may want to be asked again without
// having a question.
const maxAgain = 10

// questionError is how a request ends whose question was not answered.
func questionError(err error) *wire.Error {
	return wire.Errorf(wire.CodeInternal, "The request was given up: %v", err).WithData(map[string]any{"reason": "question_not_answered"})
}

// question puts the requests of an InputRequiredResult to the client and waits
// for all answers. A result without requests only wants to be asked again.
func (c *Call) question(ctx context.Context, result wire.Object) (answers wire.Object, err error) {
	requests, _ := result.Object("inputRequests")
	if len(requests) == 0 {
		if c.again++; c.again > maxAgain {
			return nil, errGoesOn
		}
		return nil, context.Cause(ctx)
	}
	c.again = 0
	return c.Question(ctx, requests, nil)
}

// Question puts input requests to the client, each with meta among its _meta (nil:
// nothing), and waits for all answers, which it returns as inputResponses. An
// error means that there will not be all of them.
func (c *Call) Question(ctx context.Context, requests, meta wire.Object) (answers wire.Object, err error) {
	ids := c.number(requests)
	for i, r := range requests {
		if !c.put(ids[i], r.Value, meta) {
			return nil, errCannotAsk
		}
	}
	return c.collect(ctx, requests, ids)
}

// number gives each question an id that no other question of the session has.
func (c *Call) number(requests wire.Object) []wire.Raw {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	ids := make([]wire.Raw, len(requests))
	for i, r := range requests {
		ids[i] = wire.Quote(fmt.Sprintf("%s.%d.%s", c.out.name, c.round, r.Name))
	}
	return ids
}

// put sends one question. It is kept first, because the answer is found by it.
func (c *Call) put(id, request wire.Raw, meta wire.Object) (ok bool) {
	if !c.streams {
		return false
	}
	o, _ := wire.ParseObject(request) // the gateway's own
	method, _ := wire.String(o.Get("method"))
	event := wire.Message{ID: id, Method: method, Params: legacyQuestion(id, o.Get("params"), meta)}.Bytes()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginStream()
	if !c.keep(func(l *leg) { l.Events = append(l.Events, event) }) {
		return false
	}
	c.out.said++
	c.out.event(event)
	return true
}

// legacyQuestion gives an elicitation by URL the id that it must have in this
// era (client/elicitation#url-mode-elicitation-requests), and a question the meta
// that it is to have.
func legacyQuestion(id, params wire.Raw, meta wire.Object) wire.Raw {
	o, err := wire.ParseObject(params)
	if err != nil && params != nil {
		return params
	}
	if mode, _ := wire.String(o.Get("mode")); mode == "url" && o.Get("elicitationId") == nil {
		o = o.With("elicitationId", id)
	}
	own, _ := o.Object("_meta")
	for _, m := range meta {
		own = own.With(m.Name, m.Value)
	}
	if len(own) > 0 {
		o = o.With("_meta", own.Bytes())
	}
	if o == nil {
		return nil
	}
	return o.Bytes()
}

// collect waits for the answers to all of ids.
func (c *Call) collect(ctx context.Context, requests wire.Object, ids []wire.Raw) (answers wire.Object, err error) {
	var refused error
	err = c.f.await(ctx, c.key, c.Alive, func(text []byte) bool {
		answers, refused = answersIn(text, requests, ids)
		return refused != nil || len(answers) == len(requests)
	})
	if err == nil {
		err = refused
	}
	return answers, err
}

// answersIn are those answers of a leg that are there, as inputResponses.
func answersIn(text []byte, requests wire.Object, ids []wire.Raw) (answers wire.Object, err error) {
	l, err := readLeg(text)
	if err != nil {
		return nil, err
	}
	for i, r := range requests {
		response, ok := l.Answers[string(ids[i])]
		if !ok {
			continue
		}
		answer, err := answerIn(response, r.Value)
		if err != nil {
			return nil, err
		}
		answers = answers.With(r.Name, answer)
	}
	return answers, nil
}

// answerIn is the result in a client's response. An elicitation that a client
// fails to do is one that was dismissed; there is no such way out of the other
// questions.
func answerIn(response []byte, request wire.Raw) (wire.Raw, error) {
	msg, _ := wire.Decode(response) // decoded once already
	if msg.Error == nil {
		return msg.Result, nil
	}
	o, _ := wire.ParseObject(request)
	if method, _ := wire.String(o.Get("method")); method == wire.MethodElicit {
		return wire.Raw(`{"action":"cancel"}`), nil
	}
	return nil, fmt.Errorf("the client answered the server's question with an error: %w", wire.ParseError(msg.Error))
}

// answered takes a client's response to a question, at whatever replica. The
// first one counts.
func (f *Front) answered(w http.ResponseWriter, req *http.Request, s *session, msg wire.Message) {
	id, _ := wire.String(msg.ID)
	name, _, _ := strings.Cut(id, ".")
	err := f.changeLeg(req.Context(), s.legKey(name), func(l *leg) error {
		if !l.asked(msg.ID) {
			return badRequest("no question of this session has the id %.100s", msg.ID)
		}
		if _, ok := l.Answers[string(msg.ID)]; ok {
			return nil
		}
		if l.Answers == nil {
			l.Answers = map[string][]byte{}
		}
		l.Answers[string(msg.ID)] = msg.Bytes()
		return nil
	})
	if err != nil {
		refuse(w, nil, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// notified takes a client's notification. The others than a cancellation say
// nothing that the gateway does not ask for when it needs it.
func (f *Front) notified(w http.ResponseWriter, req *http.Request, s *session, msg wire.Message) {
	params, _ := wire.ParseObject(msg.Params)
	if id := params.Get("requestId"); msg.Method == "notifications/cancelled" && id != nil {
		err := f.changeLeg(req.Context(), s.legKey(legName(id)), func(l *leg) error {
			l.Cancelled = !l.Over
			return nil
		})
		if err != nil {
			refuse(w, nil, err)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}
