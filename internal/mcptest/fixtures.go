package mcptest

import (
	"encoding/json"
	"time"

	"taskgate/wire"
)

// Fixtures are the tools that the tasks scenarios of the conformance suite call
// by name. second is what the suite calls a second; tests may make it shorter.
func Fixtures(second time.Duration) []Tool {
	return []Tool{
		{Name: "greet", Definition: definition("Greets at once.", "name", "string"), Run: greet},
		{Name: "slow_compute", Definition: definition("Works for some seconds.", "seconds", "number"), Run: slowCompute(second)},
		{Name: "failing_job", Definition: definition("Fails as a tool does.", "", ""), Run: failingJob(second)},
		{Name: "protocol_error_job", Definition: definition("Fails as a protocol error.", "", ""), Run: protocolErrorJob(second)},
		{Name: "confirm_delete", Definition: definition("Asks once.", "filename", "string"), Run: confirmDelete},
		{Name: "multi_input", Definition: definition("Asks two things at the same time.", "", ""), Run: multiInput},
		{Name: "test_tool_with_task", Definition: definition("Asks first, then works for a second.", "", ""), Run: askThenWork(second)},
	}
}

func definition(description, argument, typ string) wire.Raw {
	properties := map[string]any{}
	if argument != "" {
		properties[argument] = map[string]string{"type": typ}
	}
	return JSON(map[string]any{
		"description": description,
		"inputSchema": map[string]any{"type": "object", "properties": properties},
	})
}

func greet(c *Call) (wire.Raw, *wire.Error) {
	name, _ := wire.String(c.Arguments.Get("name"))
	return Text("Hello, " + name + "!"), nil
}

func slowCompute(second time.Duration) Func {
	return func(c *Call) (wire.Raw, *wire.Error) {
		var seconds float64
		if raw := c.Arguments.Get("seconds"); raw != nil && json.Unmarshal(raw, &seconds) != nil {
			return nil, wire.Errorf(wire.CodeInvalidParams, "Invalid params: seconds must be a number")
		}
		for done := 0.0; done < seconds; done++ {
			if !c.Sleep(time.Duration(min(1, seconds-done) * float64(second))) {
				return Text("Cancelled."), nil
			}
			c.Progress(min(done+1, seconds), seconds, "")
		}
		return Text("Computed."), nil
	}
}

func failingJob(second time.Duration) Func {
	return func(c *Call) (wire.Raw, *wire.Error) {
		c.Sleep(second)
		return wire.Raw(`{"content":[{"type":"text","text":"The job failed."}],"isError":true}`), nil
	}
}

func protocolErrorJob(second time.Duration) Func {
	return func(c *Call) (wire.Raw, *wire.Error) {
		c.Sleep(second)
		return nil, wire.Errorf(wire.CodeInternal, "The job broke the protocol.")
	}
}

func confirmDelete(c *Call) (wire.Raw, *wire.Error) {
	filename, _ := wire.String(c.Arguments.Get("filename"))
	answers, err := c.Ask(Question{Key: "confirm", Method: wire.MethodElicit, Params: JSON(map[string]any{
		"message": "Delete " + filename + "?",
		"requestedSchema": map[string]any{
			"type":       "object",
			"properties": map[string]any{"confirm": map[string]string{"type": "boolean"}},
		},
	})})
	if err != nil {
		return nil, err
	}
	if string(content(answers["confirm"], "confirm")) != "true" {
		return Text("Kept " + filename + "."), nil
	}
	return Text("Deleted " + filename + "."), nil
}

func multiInput(c *Call) (wire.Raw, *wire.Error) {
	answers, err := c.Ask(Elicit("name", "What is your name?"), Elicit("colour", "Which colour?"))
	if err != nil {
		return nil, err
	}
	name, _ := wire.String(content(answers["name"], "name"))
	colour, _ := wire.String(content(answers["colour"], "colour"))
	return Text(name + " likes " + colour + "."), nil
}

func askThenWork(second time.Duration) Func {
	return func(c *Call) (wire.Raw, *wire.Error) {
		answers, err := c.Ask(Elicit("name", "What is your name?"))
		if err != nil {
			return nil, err
		}
		c.Sleep(second)
		name, _ := wire.String(content(answers["name"], "name"))
		return Text("Hello, " + name + "!"), nil
	}
}

// content is a member of what an elicitation was answered with, nil when it was
// not accepted.
func content(answer wire.Raw, name string) wire.Raw {
	o, _ := wire.ParseObject(answer)
	c, _ := o.Object("content")
	return c.Get(name)
}

// HandleFixtures adds a resource and a prompt, so that other scenarios of the
// suite find something.
func (u *Upstream) HandleFixtures() {
	u.Capabilities = wire.Raw(`{"tools":{},"resources":{},"prompts":{}}`)
	for method, result := range map[string]string{
		"resources/list":           `{"resources":[{"uri":"test://static-text","name":"static-text"}]}`,
		"resources/templates/list": `{"resourceTemplates":[]}`,
		"prompts/list":             `{"prompts":[{"name":"test_simple_prompt","description":"A prompt for tests."}]}`,
		"prompts/get":              `{"messages":[{"role":"user","content":{"type":"text","text":"This is a simple prompt."}}]}`,
	} {
		u.Handle(method, func(wire.Object) (wire.Raw, *wire.Error) { return wire.Raw(result), nil })
	}
	u.Handle("resources/read", u.readResource)
}

// readResource says that there is no such resource in the words of the era.
func (u *Upstream) readResource(params wire.Object) (wire.Raw, *wire.Error) {
	uri, _ := wire.String(params.Get("uri"))
	if uri == "test://static-text" {
		return wire.Raw(`{"contents":[{"uri":"test://static-text","mimeType":"text/plain","text":"Static text."}]}`), nil
	}
	code := wire.CodeInvalidParams
	if _, old := u.era.(*legacy); old {
		code = wire.CodeLegacyNotFound
	}
	return nil, wire.Errorf(code, "Resource not found").WithData(map[string]string{"uri": uri})
}
