package mcptest

import (
	"encoding/json"
	"time"

	"taskgate/wire"
)

// Tool is one tool of an Upstream.
type Tool struct {
	Name string
	// Definition is the tool as tools/list shows it, less its name. Nil: a
	// description and a schema that takes any object.
	Definition wire.Raw
	Run        Func
	// Task makes the upstream run it only as a task of its own: SEP-2663, or
	// execution.taskSupport "required" of 2025-11-25.
	Task bool
}

// Func runs a tool. In the modern era it runs anew in every round of questions,
// so what stands before an Ask must do no harm twice. An error that Ask returns
// is to be returned as it is.
type Func func(c *Call) (result wire.Raw, err *wire.Error)

// Call is one running tools/call, as its tool sees it.
type Call struct {
	Tool         string
	Params       wire.Object
	Arguments    wire.Object
	Capabilities wire.Capabilities // of the client, as it declared them

	x    *exchange
	task *task // nil unless it runs as one
	ask  func(questions []Question) (map[string]wire.Raw, *wire.Error)
}

// Question is a server-to-client request. Keys are unique within a tool.
type Question struct {
	Key    string
	Method string
	Params wire.Raw
}

// Cancelled is closed when the client has cancelled the call and the upstream
// honours that, or when the upstream closes.
func (c *Call) Cancelled() <-chan struct{} { return c.x.done }

// Sleep waits for d; it returns false when the call was cancelled before.
func (c *Call) Sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.Cancelled():
		return false
	}
}

// Progress tells the client how far the call is, if it gave a token. A total of
// 0 and an empty message are left out.
func (c *Call) Progress(progress, total float64, message string) {
	if c.task != nil {
		c.task.say(message)
	}
	meta, _ := c.Params.Object("_meta")
	token := meta.Get(wire.MetaProgressToken)
	if token == nil {
		return
	}
	params := wire.Object{}.With("progressToken", token).With("progress", JSON(progress))
	if total != 0 {
		params = params.With("total", JSON(total))
	}
	if message != "" {
		params = params.With("message", JSON(message))
	}
	c.Notify("notifications/progress", params.Bytes())
}

// Notify sends a notification on the call's stream.
func (c *Call) Notify(method string, params wire.Raw) {
	c.x.stream.append(wire.Message{Method: method, Params: params})
}

// Ask asks the client, all questions at once, and returns its results by key.
// A client that did not declare that it can answer is not asked.
func (c *Call) Ask(questions ...Question) (map[string]wire.Raw, *wire.Error) {
	return c.ask(questions)
}

// Cut breaks the connection of the call's stream. The tool runs on.
func (c *Call) Cut() { c.x.stream.cut() }

// Elicit is a question for one string, named like the key.
func Elicit(key, message string) Question {
	return Question{Key: key, Method: wire.MethodElicit, Params: JSON(map[string]any{
		"message": message,
		"requestedSchema": map[string]any{
			"type":       "object",
			"properties": map[string]any{key: map[string]string{"type": "string"}},
		},
	})}
}

// Text is a tool result of one text.
func Text(text string) wire.Raw {
	return JSON(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}})
}

// JSON writes v, which must marshal.
func JSON(v any) wire.Raw {
	b, err := json.Marshal(v)
	if err != nil {
		panic("mcptest: " + err.Error())
	}
	return b
}
