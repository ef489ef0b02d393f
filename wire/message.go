package wire

import (
	"bytes"
	"fmt"
)

// Message is one JSON-RPC message, its parts exactly as they came.
type Message struct {
	ID     Raw    // nil for a notification
	Method string // "" for a response
	Params Raw    // nil when absent
	Result Raw    // nil when absent
	Error  Raw    // nil when absent
}

// IsRequest tells a message that wants an answer.
func (m Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification tells a message that wants none.
func (m Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse tells an answer.
func (m Message) IsResponse() bool { return m.Method == "" }

// Decode reads exactly one JSON-RPC message and refuses what two parsers could
// read differently: batches, duplicate names at any depth, names that differ
// from the envelope's only by case, trailing bytes, invalid UTF-8. The returned
// message carries the id when it could be read, so that the error can be
// answered with it.
func Decode(body []byte) (Message, *Error) {
	body = bytes.TrimLeft(body, " \t\r\n")
	if len(body) == 0 {
		return Message{}, Errorf(CodeParse, "Parse error: the body is empty; send one JSON-RPC message")
	}
	if body[0] == '[' {
		return Message{}, Errorf(CodeInvalidRequest, "Invalid request: batches are not part of this protocol; send each message as its own POST")
	}
	o, err := ParseObject(body)
	if err == errNotObject {
		return Message{}, Errorf(CodeInvalidRequest, "Invalid request: a JSON-RPC message is an object")
	}
	if err != nil {
		return Message{}, Errorf(CodeParse, "Parse error: %v", err)
	}
	return fromObject(o)
}

var envelopeMembers = []string{"jsonrpc", "id", "method", "params", "result", "error"}

func fromObject(o Object) (Message, *Error) {
	m := Message{ID: o.Get("id"), Params: o.Get("params"), Result: o.Get("result"), Error: o.Get("error")}
	if m.Error != nil && string(m.ID) == "null" { // "I could not read your id"
		m.ID = nil
	}
	if err := checkID(m.ID); err != nil {
		m.ID = nil
		return m, err
	}
	if got, want := o.ImpostorOf(envelopeMembers...); got != "" {
		return m, Errorf(CodeInvalidRequest, "Invalid request: member %q could be taken for %q", got, want)
	}
	if v, _ := String(o.Get("jsonrpc")); v != "2.0" {
		return m, Errorf(CodeInvalidRequest, `Invalid request: member "jsonrpc" must be "2.0"`)
	}
	if method := o.Get("method"); method != nil {
		if m.Method, _ = String(method); m.Method == "" {
			return m, Errorf(CodeInvalidRequest, `Invalid request: member "method" must be a string that is not empty`)
		}
	}
	return m, m.checkShape()
}

// checkID wants a string or a number (basic/index#requests). An integer is
// asked for there, but 1.5 does no harm here and stays 1.5.
func checkID(id Raw) *Error {
	if id == nil || id[0] == '"' || id[0] == '-' || (id[0] >= '0' && id[0] <= '9') {
		return nil
	}
	return Errorf(CodeInvalidRequest, `Invalid request: member "id" must be a string or a number`)
}

func (m Message) checkShape() *Error {
	switch {
	case m.Method == "" && (m.Result == nil) == (m.Error == nil):
		return Errorf(CodeInvalidRequest, `Invalid request: neither a request ("method") nor a response ("result" or "error")`)
	case m.Method == "" && m.ID == nil && m.Result != nil:
		return Errorf(CodeInvalidRequest, `Invalid request: a result needs an "id"`)
	case m.Method != "" && m.Params != nil && m.Params[0] != '{':
		return Errorf(CodeInvalidRequest, `Invalid request: member "params" must be an object`)
	}
	return nil
}

// Bytes writes the message out with the members in the usual order.
func (m Message) Bytes() []byte {
	out := make([]byte, 0, 64+len(m.ID)+len(m.Method)+len(m.Params)+len(m.Result)+len(m.Error))
	out = append(out, `{"jsonrpc":"2.0"`...)
	out = appendMember(out, "id", m.ID)
	if m.Method != "" {
		out = appendMember(out, "method", Quote(m.Method))
	}
	out = appendMember(out, "params", m.Params)
	out = appendMember(out, "result", m.Result)
	out = appendMember(out, "error", m.Error)
	return append(out, '}')
}

func appendMember(out []byte, name string, value Raw) []byte {
	if value == nil {
		return out
	}
	out = fmt.Appendf(out, `,"%s":`, name)
	return append(out, value...)
}

// Result answers a request.
func Result(id, result Raw) Message { return Message{ID: id, Result: result} }

// Failure answers a request with an error. A nil id is written as null, as
// JSON-RPC wants where the id could not be read.
func Failure(id Raw, e *Error) Message {
	if id == nil {
		id = Raw("null")
	}
	return Message{ID: id, Error: e.Raw()}
}
