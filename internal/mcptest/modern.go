package mcptest

import (
	"encoding/base64"
	"net/http"

	"taskgate/wire"
)

// modern serves 2026-07-28.
type modern struct {
	u         *Upstream
	listeners listeners
}

// errPaused is what Ask returns when the answers are not there yet.
var errPaused = wire.Errorf(wire.CodeInternal, "the tool waits for input; return this error as it is")

var modernInfo = wire.Raw(`{"name":"mcptest-modern","version":"1"}`)

func (e *modern) serve(w http.ResponseWriter, r *http.Request, rec Received) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m, err := wire.Decode(rec.Body)
	if err == nil && m.IsNotification() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var params wire.Object
	var meta wire.Meta
	if err == nil {
		params, meta, err = e.check(r.Header, m)
	}
	if err == nil && m.Method == "tools/call" {
		if err = e.call(w, r, rec, params, meta); err == nil {
			return
		}
	}
	if err == nil && m.Method == "subscriptions/listen" && e.u.methods[m.Method] == nil {
		if err = e.listen(w, r, rec, params); err == nil {
			return
		}
	}
	var result wire.Raw
	if err == nil {
		var ok bool
		if result, err, ok = e.tasks(m.Method, params, meta); ok {
			result = modernResult(m.Method, result)
		} else {
			result, err = e.answer(m.Method, params)
		}
	}
	answer := respond(m.ID, result, err)
	writeMessage(w, messageStatus(answer), answer)
}

func (e *modern) check(h http.Header, m wire.Message) (params wire.Object, meta wire.Meta, err *wire.Error) {
	if params, err = m.ParamsObject(); err != nil {
		return params, meta, err
	}
	if meta, err = wire.ParseMeta(params); err != nil {
		return params, meta, err
	}
	if err = wire.CheckHeaders(h, m, params, meta.Version); err != nil {
		return params, meta, err
	}
	if meta.Version != wire.Version {
		return params, meta, wire.Errorf(wire.CodeUnsupportedVersion, "Unsupported protocol version").
			WithData(map[string]any{"supported": []string{wire.Version}, "requested": meta.Version})
	}
	return params, meta, nil
}

func (e *modern) answer(method string, params wire.Object) (wire.Raw, *wire.Error) {
	var result wire.Raw
	var err *wire.Error
	if method == "server/discover" {
		result = JSON(map[string]any{"supportedVersions": []string{wire.Version}, "capabilities": e.u.capabilities()})
	} else {
		result, err = e.u.answer(method, params)
	}
	return modernResult(method, result), err
}

// call runs a tool; an error is one that shows before it runs.
func (e *modern) call(w http.ResponseWriter, r *http.Request, rec Received, params wire.Object, meta wire.Meta) *wire.Error {
	tool, err := e.u.tool(params.Get("name"))
	if err != nil {
		return err
	}
	definition, _ := wire.ParseObject(tool.definition())
	if err := wire.CheckParamHeaders(r.Header, definition.Get("inputSchema"), params.Get("arguments")); err != nil {
		return err
	}
	if tool.Task {
		return e.callTask(w, rec, params, meta, tool)
	}
	answers, err := e.answers(params)
	if err != nil {
		return err
	}
	x := newExchange(rec, params, "")
	if !e.u.keep(x) {
		return wire.Errorf(wire.CodeInternal, "closing")
	}
	q := &questionnaire{capabilities: meta.Capabilities, answers: answers, state: e.u.RequestState}
	arguments, _ := params.Object("arguments")
	c := &Call{Tool: tool.Name, Params: params, Arguments: arguments, Capabilities: meta.Capabilities, ask: q.ask}
	e.u.run(x, tool, c, func(result wire.Raw, err *wire.Error) wire.Message {
		if err == errPaused {
			result, err = q.result(), nil
		}
		if err != nil {
			return wire.Failure(rec.Message.ID, err)
		}
		return wire.Result(rec.Message.ID, modernResult("tools/call", result))
	})
	if e.u.reply(r.Context(), w, x, messageStatus) != nil {
		e.u.cancel(x) // a closed stream is the cancellation of this era
	}
	return nil
}

// callTask makes a task of a call that declares the extension.
func (e *modern) callTask(w http.ResponseWriter, rec Received, params wire.Object, meta wire.Meta, tool Tool) *wire.Error {
	if !meta.Capabilities.DeclaresTasks() {
		return wire.MissingCapability(wire.TasksRequired)
	}
	arguments, _ := params.Object("arguments")
	c := &Call{Tool: tool.Name, Params: params, Arguments: arguments, Capabilities: meta.Capabilities}
	c.ask = func(questions []Question) (map[string]wire.Raw, *wire.Error) { return c.task.askModern(questions) }
	t, err := e.u.start(rec, params, tool, c)
	if err != nil {
		return err
	}
	created := t.object("ttlMs", "pollIntervalMs").With("resultType", wire.Quote(wire.ResultTask))
	writeMessage(w, http.StatusOK, wire.Result(rec.Message.ID, created.Bytes()))
	return nil
}

// answers are those of this retry and, by its requestState, of earlier ones.
func (e *modern) answers(params wire.Object) (wire.Object, *wire.Error) {
	now, _ := params.Object("inputResponses")
	if !e.u.RequestState {
		return now, nil
	}
	if params.Get("requestState") == nil {
		return wire.Object{}, nil // a first call; answers without their state are not believed
	}
	state, _ := wire.String(params.Get("requestState"))
	b, err := base64.StdEncoding.DecodeString(state)
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "Invalid params: requestState: %v", err)
	}
	all, err := wire.ParseObject(b)
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "Invalid params: requestState: %v", err)
	}
	for _, answer := range now {
		all = all.With(answer.Name, answer.Value)
	}
	return all, nil
}

// questionnaire is what a call has been told and still has to ask.
type questionnaire struct {
	capabilities wire.Capabilities
	answers      wire.Object
	pending      wire.Object
	state        bool
}

func (q *questionnaire) ask(questions []Question) (map[string]wire.Raw, *wire.Error) {
	got := map[string]wire.Raw{}
	for _, question := range questions {
		if missing := q.capabilities.Answers(question.Method, question.Params); missing != nil {
			return nil, wire.MissingCapability(missing)
		}
		if answer := q.answers.Get(question.Key); answer != nil {
			got[question.Key] = answer
			continue
		}
		request := wire.Object{}.With("method", wire.Quote(question.Method))
		if question.Params != nil {
			request = request.With("params", question.Params)
		}
		q.pending = q.pending.With(question.Key, request.Bytes())
	}
	if len(q.pending) > 0 {
		return nil, errPaused
	}
	return got, nil
}

func (q *questionnaire) result() wire.Raw {
	o := wire.Object{}.With("resultType", wire.Quote(wire.ResultInputRequired)).With("inputRequests", q.pending.Bytes())
	if q.state {
		o = o.With("requestState", JSON(base64.StdEncoding.EncodeToString(q.answers.Bytes())))
	}
	return o.Bytes()
}

// modernResult completes a result of the script's; one that is no object goes
// out as it is.
func modernResult(method string, result wire.Raw) wire.Raw {
	if r, err := wire.ModernResult(method, result, modernInfo); err == nil {
		return r
	}
	return result
}

func messageStatus(m wire.Message) int {
	if m.Error == nil {
		return http.StatusOK
	}
	return modernStatus(wire.ParseError(m.Error).Code)
}

// modernStatus is the HTTP status that an error has before a stream began.
func modernStatus(code int) int {
	switch code {
	case wire.CodeMethodNotFound:
		return http.StatusNotFound
	case wire.CodeParse, wire.CodeInvalidRequest, wire.CodeInvalidParams,
		wire.CodeHeaderMismatch, wire.CodeMissingCapability, wire.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
