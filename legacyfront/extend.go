package legacyfront

import (
	"context"
	"time"

	"taskgate/wire"
)

// Extension is what a revision has beyond what this package serves.
type Extension struct {
	// Capabilities are announced with those of the server.
	Capabilities wire.Object
	// Methods answer requests of these methods instead of Forward.
	Methods map[string]Method
	// TaskNote is the notification of the state of a task of SEP-2663, and whether
	// there will be no other; nil: the revision has no such notification.
	TaskNote func(task wire.Object) (note wire.Message, ended bool)
}

// Method answers a request. When ctx ends, the client wants no answer.
type Method func(ctx context.Context, c *Call) Answer

// Params are those of the request, less what has a meaning in the new era only.
func (c *Call) Params() wire.Object {
	params, _ := wire.ParseObject(c.msg.Params) // none are an empty object
	return params.Without("inputResponses", "requestState")
}

// Ask asks the modern front on behalf of the client, with the extension for tasks
// declared. said hears what comes ahead of the answer; with nil the client does.
func (c *Call) Ask(ctx context.Context, method string, params wire.Object, said func(wire.Message)) Answer {
	if said == nil {
		said = c.relay
	}
	return ask(ctx, c.v, c.withTasks(method, params), said).answer()
}

// AskForTask asks for a tools/call that is a task from its beginning. A ttl of 0 is
// that which policy gives it; policy's may be shorter than what is wanted.
func (c *Call) AskForTask(ctx context.Context, params wire.Object, ttl time.Duration) Answer {
	return ask(ctx, c.v.AsTask(ttl), c.withTasks("tools/call", params), c.relay).answer()
}

func (c *Call) withTasks(method string, params wire.Object) wire.Message {
	return c.s.withTasks(wire.Message{ID: c.msg.ID, Method: method, Params: params.Bytes()})
}

// withTasks is modern with the extension for tasks declared.
func (s *session) withTasks(msg wire.Message) wire.Message {
	declaring := *s
	declaring.Capabilities = wire.ParseCapabilities(s.Capabilities).WithTasks()
	return declaring.modern(msg)
}

// TaskSupport says, as execution.taskSupport does, whether the client may, or
// must, ask for a task when it calls the tool of this definition.
func (c *Call) TaskSupport(tool wire.Object) string {
	return c.v.TaskSupport(c.withTasks("tools/call", tool))
}

// Say sends the client a notification on the stream of the request.
func (c *Call) Say(method string, params wire.Raw) {
	c.relay(wire.Message{Method: method, Params: params})
}

// Alive shows the client that the request is still worked at.
func (c *Call) Alive() { c.relay(wire.Message{}) }
