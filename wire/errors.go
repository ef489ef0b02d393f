package wire

import (
	"encoding/json"
	"fmt"
)

// Error codes of JSON-RPC and of MCP 2026-07-28 (basic/index#error-codes).
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
	CodeLegacyNotFound     = -32002 // 2025-11-25 and earlier; never sent to a modern client
	CodeLegacyURLRequired  = -32042 // 2025-11-25 only; never sent to a modern client
)

// Error is a JSON-RPC error object. Data is omitted when nil.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    Raw    `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Raw writes the error object out.
func (e *Error) Raw() Raw {
	b, err := json.Marshal(e)
	if err != nil { // Data was not JSON
		return (&Error{Code: e.Code, Message: e.Message}).Raw()
	}
	return b
}

// Errorf returns an Error with a formatted message.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithData returns a copy of e that carries data, which must marshal.
func (e *Error) WithData(data any) *Error {
	b, err := json.Marshal(data)
	if err != nil {
		return e
	}
	return &Error{Code: e.Code, Message: e.Message, Data: b}
}

// ParseError reads an error object leniently: whatever is no error object
// becomes an internal error that says so.
func ParseError(raw Raw) *Error {
	var e Error
	if err := json.Unmarshal(raw, &e); err != nil || !IsObject(raw) {
		return Errorf(CodeInternal, "malformed error object: %.100s", raw)
	}
	return &e
}

// MissingCapability is the -32021 error that names what the request would have
// had to declare. required is a ClientCapabilities object.
func MissingCapability(required Raw) *Error {
	return Errorf(CodeMissingCapability, "Missing required client capability").
		WithData(map[string]Raw{"requiredCapabilities": required})
}

// TasksRequired is the capability object that SEP-2663 asks for.
var TasksRequired = Raw(`{"extensions":{"` + TasksExtension + `":{}}}`)
