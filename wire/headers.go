package wire

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// Header names of Streamable HTTP, in Go's canonical form.
const (
	HeaderVersion   = "Mcp-Protocol-Version"
	HeaderMethod    = "Mcp-Method"
	HeaderName      = "Mcp-Name"
	HeaderSession   = "Mcp-Session-Id"
	HeaderLastEvent = "Last-Event-Id"
	HeaderParam     = "Mcp-Param-" // prefix
)

// CheckHeaders compares the headers with the body they came with
// (basic/transports/streamable-http#server-validation). It is to be called for
// modern requests only; version is that of the body's _meta.
func CheckHeaders(h http.Header, m Message, params Object, version string) *Error {
	v := mirror{name: HeaderVersion, source: "params._meta protocol version", required: true}
	if err := v.check(h, version); err != nil {
		return err
	}
	method := mirror{name: HeaderMethod, source: "method", required: true}
	if err := method.check(h, m.Method); err != nil {
		return err
	}
	member, required := nameMember(m.Method)
	if member == "" {
		return nil
	}
	want := params.Get(member)
	if len(want) == 0 || want[0] != '"' {
		return nil // the method's own check says what is wrong with it
	}
	name := mirror{name: HeaderName, source: "params.", member: member, required: required, encoded: true}
	got, ok, err := name.read(h)
	if err != nil || !ok || quotes(want, got) {
		return err
	}
	return name.mismatch()
}

// nameMember says which member of params Mcp-Name mirrors, and whether the
// header must be there. SEP-2663 also asks for it on tasks/*, but the Go SDKs
// do not send it, so there it is only compared.
func nameMember(method string) (member string, required bool) {
	switch method {
	case "tools/call", "prompts/get":
		return "name", true
	case "resources/read":
		return "uri", true
	case "tasks/get", "tasks/update", "tasks/cancel":
		return "taskId", false
	}
	return "", false
}

// mirror is a header that repeats a value of the body.
type mirror struct {
	name     string
	source   string // of the value, for messages
	member   string // there, if it is one of many
	required bool
	encoded  bool // may use the Base64 sentinel
}

func (m mirror) check(h http.Header, want string) *Error {
	got, ok, err := m.read(h)
	if err != nil || !ok || got == want {
		return err
	}
	return m.mismatch()
}

// read returns the value, decoded; ok is false when the header may be missing and is.
func (m mirror) read(h http.Header) (value string, ok bool, err *Error) {
	values := h.Values(m.name)
	switch {
	case len(values) == 0 && m.required:
		return "", false, Errorf(CodeHeaderMismatch, "Header mismatch: header %s is missing; it must repeat %s%s", m.name, m.source, m.member)
	case len(values) == 0:
		return "", false, nil
	case len(values) > 1:
		return "", false, Errorf(CodeHeaderMismatch, "Header mismatch: header %s is there %d times", m.name, len(values))
	case !m.encoded:
		return trimOWS(values[0]), true, nil
	}
	value, bad := DecodeHeader(values[0])
	if bad != nil {
		return "", false, Errorf(CodeHeaderMismatch, "Header mismatch: header %s: %v", m.name, bad)
	}
	return value, true, nil
}

func (m mirror) mismatch() *Error {
	return Errorf(CodeHeaderMismatch, "Header mismatch: header %s does not match %s%s of the body", m.name, m.source, m.member)
}

const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

// EncodeHeader writes a value as the Value Encoding rules want it: as it is
// when it is plain ASCII, else in the Base64 sentinel.
func EncodeHeader(v string) string {
	if plainHeader(v) {
		return v
	}
	return sentinelStart + base64.StdEncoding.EncodeToString([]byte(v)) + sentinelEnd
}

func plainHeader(v string) bool {
	for i := range len(v) {
		if v[i] < 0x20 && v[i] != '\t' || v[i] > 0x7e {
			return false
		}
	}
	sentinel := strings.HasPrefix(v, sentinelStart) && strings.HasSuffix(v, sentinelEnd)
	return !sentinel && v == trimOWS(v)
}

// DecodeHeader undoes EncodeHeader. Optional white space around the value is
// not part of it; bytes outside ASCII and bad Base64 are errors.
func DecodeHeader(v string) (string, error) {
	v = trimOWS(v)
	for i := range len(v) {
		if v[i] < 0x20 && v[i] != '\t' || v[i] > 0x7e {
			return "", fmt.Errorf("byte %#02x at %d is not allowed; use the form %s…%s", v[i], i, sentinelStart, sentinelEnd)
		}
	}
	if !strings.HasPrefix(v, sentinelStart) || !strings.HasSuffix(v, sentinelEnd) || len(v) < len(sentinelStart)+len(sentinelEnd) {
		return v, nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(v[len(sentinelStart) : len(v)-len(sentinelEnd)])
	if err != nil {
		return "", fmt.Errorf("bad Base64 in %s…%s: %w", sentinelStart, sentinelEnd, err)
	}
	return string(b), nil
}

// trimOWS takes off the optional white space of RFC 9110, 5.6.3.
func trimOWS(v string) string { return strings.Trim(v, " \t") }

// SetHeaders sets the headers that a modern request must carry beside its body
// (basic/transports/streamable-http#request-metadata), but for Mcp-Param-*.
func SetHeaders(h http.Header, method string, params Object) {
	values := []string{Version, method, ""}
	h[HeaderVersion], h[HeaderMethod] = values[:1:1], values[1:2:2]
	member, _ := nameMember(method)
	if name, ok := String(params.Get(member)); ok {
		values[2] = EncodeHeader(name)
		h[HeaderName] = values[2:]
	}
}

// AcceptsEvents tells whether a client takes a stream of events. Clients must
// accept both forms; who names neither or anything gets either, who names only
// JSON gets JSON.
func AcceptsEvents(h http.Header) bool {
	values := h.Values("Accept")
	if len(values) == 0 {
		return true
	}
	for _, list := range values {
		for part := range strings.SplitSeq(list, ",") {
			switch MediaType(part) {
			case "text/event-stream", "*/*", "text/*":
				return true
			}
		}
	}
	return false
}

// MediaType is what a media type or range is without its parameters, in lower case.
func MediaType(v string) string {
	v, _, _ = strings.Cut(v, ";")
	return strings.ToLower(trimOWS(v))
}
