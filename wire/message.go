package wire

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
func Decode(body []byte) (Message, *Error) { return Condense(body).Decode() }

// Decode is as the function.
func (t Text) Decode() (Message, *Error) {
	if len(t.raw) == 0 {
		return Message{}, Errorf(CodeParse, "Parse error: the body is empty; send one JSON-RPC message")
	}
	if t.raw[0] == '[' {
		return Message{}, Errorf(CodeInvalidRequest, "Invalid request: batches are not part of this protocol; send each message as its own POST")
	}
	if err := t.validate(); err != nil {
		return Message{}, Errorf(CodeParse, "Parse error: %v", err)
	}
	o, err := splitObject(t.raw)
	if err != nil {
		return Message{}, Errorf(CodeInvalidRequest, "Invalid request: a JSON-RPC message is an object")
	}
	return fromObject(o)
}

var envelopeMembers = []string{"jsonrpc", "id", "method", "params", "result", "error"}

func fromObject(o Object) (Message, *Error) {
	m := Message{ID: o.Get("id"), Params: o.Get("params"), Result: o.Get("result"), Error: o.Get("error")}
	m.dropNulls()
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

// dropNulls forgets members that some servers write as null instead of leaving
// them out. In an error response a null id means "I could not read your id";
// anywhere else it stays and is refused. A null result stays when it is all there is.
func (m *Message) dropNulls() {
	if isNull(m.Params) {
		m.Params = nil
	}
	if isNull(m.Error) {
		m.Error = nil
	}
	if m.Error != nil && isNull(m.Result) {
		m.Result = nil
	}
	if m.Error != nil && isNull(m.ID) {
		m.ID = nil
	}
}

func isNull(raw Raw) bool { return string(raw) == "null" }

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
	case m.Method != "" && (m.Result != nil || m.Error != nil), m.Result != nil && m.Error != nil:
		return Errorf(CodeInvalidRequest, `Invalid request: only one of "method", "result" and "error" may be there`)
	case m.Method == "" && m.Result == nil && m.Error == nil:
		return Errorf(CodeInvalidRequest, `Invalid request: neither a request ("method") nor a response ("result" or "error")`)
	case m.Result != nil && m.ID == nil:
		return Errorf(CodeInvalidRequest, `Invalid request: a result needs an "id"`)
	case m.Params != nil && !IsObject(m.Params):
		return Errorf(CodeInvalidRequest, `Invalid request: member "params" must be an object`)
	}
	return nil
}

// paramMembers are those members of params that this gateway acts on.
var paramMembers = []string{"_meta", "name", "arguments", "uri", "taskId", "task", "inputResponses", "requestState", "cursor", "notifications"}

// ParamsObject takes the params of a decoded message apart; none are an empty
// object. It refuses a member that could be taken for one that decides what
// becomes of the message.
func (m Message) ParamsObject() (Object, *Error) {
	if m.Params == nil {
		return Object{}, nil
	}
	o, err := splitObject(m.Params)
	if err != nil {
		return nil, Errorf(CodeInvalidRequest, "Invalid request: params: %v", err)
	}
	if got, want := o.ImpostorOf(paramMembers...); got != "" {
		return nil, Errorf(CodeInvalidRequest, "Invalid request: member %q of params could be taken for %q", got, want)
	}
	return o, nil
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
