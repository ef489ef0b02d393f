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

// CheckHeaders compares the headers with the body they came with
// (basic/transports/streamable-http#server-validation). It is to be called for
// modern requests only.
func CheckHeaders(h http.Header, m Message, params Object, version string) *Error {
	if err := checkHeader(h, HeaderVersion, "params._meta protocol version", version, true); err != nil {
		return err
	}
	if err := checkHeader(h, HeaderMethod, "method", m.Method, true); err != nil {
		return err
	}
	member, required := nameMember(m.Method)
	if member == "" {
		return nil
	}
	want, ok := String(params.Get(member))
	if !ok {
		return nil // the method's own check says what is wrong with it
	}
	return checkHeader(h, HeaderName, "params."+member, want, required)
}

func checkHeader(h http.Header, name, source, want string, required bool) *Error {
	values := h.Values(name)
	if len(values) == 0 {
		if !required {
			return nil
		}
		return Errorf(CodeHeaderMismatch, "Header mismatch: header %s is missing; it must repeat %s", name, source)
	}
	if len(values) > 1 {
		return Errorf(CodeHeaderMismatch, "Header mismatch: header %s is there %d times", name, len(values))
	}
	got, err := DecodeHeader(values[0])
	if err != nil {
		return Errorf(CodeHeaderMismatch, "Header mismatch: header %s: %v", name, err)
	}
	if got != want {
		return Errorf(CodeHeaderMismatch, "Header mismatch: header %s does not match %s of the body", name, source)
	}
	return nil
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
	return !sentinel && v == strings.Trim(v, " \t")
}

// DecodeHeader undoes EncodeHeader. Optional white space around the value is
// not part of it; bytes outside ASCII and bad Base64 are errors.
func DecodeHeader(v string) (string, error) {
	v = strings.Trim(v, " \t")
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

// SetHeaders sets the headers that a modern request must carry beside its body
// (basic/transports/streamable-http#request-metadata), but for Mcp-Param-*.
func SetHeaders(h http.Header, method string, params Object) {
	h.Set(HeaderVersion, Version)
	h.Set(HeaderMethod, method)
	member, _ := nameMember(method)
	if name, ok := String(params.Get(member)); ok {
		h.Set(HeaderName, EncodeHeader(name))
	}
}
