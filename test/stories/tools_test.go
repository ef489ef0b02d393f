package stories

import (
	"sync"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// script says when the tools of an upstream go on.
type script struct {
	mu   sync.Mutex
	gate chan struct{} // closed and replaced when they go on
}

func newScript() *script { return &script{gate: make(chan struct{})} }

// goOn lets all tools that wait go on.
func (s *script) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.gate)
	s.gate = make(chan struct{})
}

// next is closed when the story lets its tools go on the next time. A tool has it
// before it says something that the story may wait for.
func (s *script) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate
}

// wait returns when the story lets the tool go on, or its client has cancelled.
func wait(c *mcptest.Call, next <-chan struct{}) {
	select {
	case <-next:
	case <-c.Cancelled():
	}
}

func (s *script) tools() []mcptest.Tool {
	run := map[string]mcptest.Func{
		"greet":            func(*mcptest.Call) (wire.Raw, *wire.Error) { return mcptest.Text("Hello!"), nil },
		"report":           s.report,
		"chatter":          s.chatter,
		"survey":           survey,
		"fail":             fail,
		"refuse":           refuse,
		"vanish":           vanish,
		"pay":              pay,
		"name":             asks(mcptest.Elicit("name", "What is your name?")),
		"sign in":          asks(question("link", wire.MethodElicit, `{"mode":"url","elicitationId":"e-1","url":"https://login.example/","message":"Sign in"}`)),
		"write":            asks(question("text", wire.MethodSampling, `{"messages":[{"role":"user","content":{"type":"text","text":"A haiku"}}],"maxTokens":50}`)),
		"folders":          asks(question("roots", wire.MethodRoots, ``)),
		"sign twice":       asks(question("here", wire.MethodElicit, signature), question("there", wire.MethodElicit, signature)),
		"name then report": s.nameThenReport,
		"report then name": s.reportThenName,
		"both": asks(mcptest.Elicit("name", "What is your name?"),
			mcptest.Elicit("colour", "Which colour?")),
	}
	var tools []mcptest.Tool
	for name, f := range run {
		tools = append(tools, mcptest.Tool{Name: name, Run: f})
	}
	return append(tools, mcptest.Tool{Name: "grüße", Run: run["greet"]}, mcptest.Tool{Name: "research", Task: true, Run: s.research})
}

const signature = `{"message":"Sign","requestedSchema":{"type":"object","properties":{}}}`

// report works until the story lets it go on.
func (s *script) report(c *mcptest.Call) (wire.Raw, *wire.Error) {
	next := s.next()
	c.Progress(1, 2, "Half of it")
	wait(c, next)
	return mcptest.Text("The report."), nil
}

// nameThenReport asks first and works then.
func (s *script) nameThenReport(c *mcptest.Call) (wire.Raw, *wire.Error) {
	if _, err := c.Ask(mcptest.Elicit("name", "What is your name?")); err != nil {
		return nil, err
	}
	return s.report(c)
}

// reportThenName works first and asks then.
func (s *script) reportThenName(c *mcptest.Call) (wire.Raw, *wire.Error) {
	if _, err := s.report(c); err != nil {
		return nil, err
	}
	return asks(mcptest.Elicit("name", "What is your name?"))(c)
}

// chatter says what it can while it works.
func (s *script) chatter(c *mcptest.Call) (wire.Raw, *wire.Error) {
	next := s.next()
	c.Progress(0, 2, "Begun")
	wait(c, next)
	next = s.next()
	c.Notify("notifications/message", wire.Raw(`{"level":"error","data":"of interest to nobody"}`))
	c.Progress(1, 2, "Half of it")
	wait(c, next)
	return mcptest.Text("Said."), nil
}

// research is a tool that its server runs as a task of its own.
func (s *script) research(c *mcptest.Call) (wire.Raw, *wire.Error) {
	next := s.next()
	c.Progress(1, 0, "Gathering sources")
	wait(c, next)
	answers, err := c.Ask(mcptest.Elicit("city", "Which city?"))
	if err != nil {
		return nil, err
	}
	return wire.Object{}.With("content", wire.Raw(`[]`)).With("structuredContent", answers["city"]).Bytes(), nil
}

// survey tells how far it is, without a pause.
func survey(c *mcptest.Call) (wire.Raw, *wire.Error) {
	c.Progress(1, 2, "")
	c.Progress(2, 2, "Done")
	return mcptest.Text("Surveyed."), nil
}

func fail(*mcptest.Call) (wire.Raw, *wire.Error) {
	return wire.Raw(`{"content":[{"type":"text","text":"The disk is full."}],"isError":true}`), nil
}

func refuse(*mcptest.Call) (wire.Raw, *wire.Error) {
	return nil, wire.Errorf(-32050, "Not on Sundays").WithData(wire.Raw(`{"day":9007199254740993}`))
}

// vanish breaks its stream off.
func vanish(c *mcptest.Call) (wire.Raw, *wire.Error) {
	c.Progress(1, 2, "")
	c.Cut()
	<-c.Cancelled()
	return nil, nil
}

// pay wants the user to have visited a page (2025-11-25, error -32042).
func pay(*mcptest.Call) (wire.Raw, *wire.Error) {
	return nil, wire.Errorf(-32042, "Pay first").
		WithData(wire.Raw(`{"elicitations":[{"mode":"url","elicitationId":"e-7","url":"https://pay.example/","message":"Pay first"}]}`))
}

func question(key, method, params string) mcptest.Question {
	q := mcptest.Question{Key: key, Method: method}
	if params != "" {
		q.Params = wire.Raw(params)
	}
	return q
}

// asks is a tool that asks all questions at once and returns the answers.
func asks(questions ...mcptest.Question) mcptest.Func {
	return func(c *mcptest.Call) (wire.Raw, *wire.Error) {
		answers, err := c.Ask(questions...)
		if err != nil {
			return nil, err
		}
		var o wire.Object
		for _, q := range questions {
			o = o.With(q.Key, answers[q.Key])
		}
		return wire.Object{}.With("content", wire.Raw(`[]`)).With("structuredContent", o.Bytes()).Bytes(), nil
	}
}
