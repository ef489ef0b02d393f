package wire

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ParamHeader is one property of a tool's input schema that is repeated in a
// header (basic/transports/streamable-http#custom-headers-from-tool-parameters).
type ParamHeader struct {
	Header string   // full name, in Go's canonical form
	Path   []string // of the argument, from the root
}

// ParamHeaders lists the x-mcp-header annotations of an input schema, found
// along chains of properties only. The error names the first annotation that
// breaks a rule, which makes the whole tool definition invalid.
func ParamHeaders(inputSchema Raw) ([]ParamHeader, error) {
	var list []ParamHeader
	if err := collectParamHeaders(&list, nil, inputSchema); err != nil {
		return nil, err
	}
	return list, nil
}

func collectParamHeaders(list *[]ParamHeader, path []string, schema Raw) error {
	s, err := splitObject(schema)
	if err != nil {
		return nil // true and false are schemas too
	}
	if annotation := s.Get("x-mcp-header"); annotation != nil && len(path) > 0 {
		h, err := paramHeader(annotation, s.Get("type"))
		if err == nil && slices.ContainsFunc(*list, func(p ParamHeader) bool { return p.Header == h }) {
			err = fmt.Errorf("%s is there twice", h)
		}
		if err != nil {
			return fmt.Errorf("x-mcp-header of property %s: %w", strings.Join(path, "."), err)
		}
		*list = append(*list, ParamHeader{Header: h, Path: slices.Clone(path)})
	}
	properties, _ := s.Object("properties")
	for _, p := range properties {
		if err := collectParamHeaders(list, append(path, p.Name), p.Value); err != nil {
			return err
		}
	}
	return nil
}

func paramHeader(annotation, typ Raw) (string, error) {
	name, ok := String(annotation)
	if !ok || name == "" || strings.ContainsFunc(name, notTokenChar) {
		return "", fmt.Errorf("%s is no header name", annotation)
	}
	switch t, _ := String(typ); t {
	case "string", "integer", "boolean":
		return http.CanonicalHeaderKey(HeaderParam + name), nil
	}
	return "", errors.New("the type is not string, integer or boolean")
}

// notTokenChar tells what may not be part of a token (RFC 9110, 5.6.2).
func notTokenChar(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	digit := r >= '0' && r <= '9'
	return !letter && !digit && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// CheckParamHeaders compares the Mcp-Param-* headers of a modern tools/call
// with its arguments. Headers that the schema does not name are nobody's
// business here. An invalid schema names none: no client calls such a tool by
// the rules.
func CheckParamHeaders(h http.Header, inputSchema, arguments Raw) *Error {
	list, err := ParamHeaders(inputSchema)
	if err != nil {
		return nil
	}
	for _, p := range list {
		if err := p.check(h, arguments); err != nil {
			return err
		}
	}
	return nil
}

// SetParamHeaders sets the Mcp-Param-* headers that a tools/call with these
// arguments must carry. An invalid schema names none.
func SetParamHeaders(h http.Header, inputSchema, arguments Raw) {
	list, err := ParamHeaders(inputSchema)
	if err != nil {
		return
	}
	for _, p := range list {
		if value := p.argument(arguments); value != nil {
			h.Set(p.Header, headerText(value))
		}
	}
}

// headerText is an argument as it stands in a header.
func headerText(value Raw) string {
	if s, ok := String(value); ok {
		return EncodeHeader(s)
	}
	return string(value)
}

func (p ParamHeader) check(h http.Header, arguments Raw) *Error {
	m := mirror{name: p.Header, source: "params.arguments.", member: strings.Join(p.Path, "."), required: true, encoded: true}
	value := p.argument(arguments)
	if value == nil {
		if len(h.Values(p.Header)) > 0 {
			return Errorf(CodeHeaderMismatch, "Header mismatch: header %s is there, but %s%s is not", m.name, m.source, m.member)
		}
		return nil
	}
	got, _, err := m.read(h)
	if err != nil || sameValue(got, value) {
		return err
	}
	return m.mismatch()
}

// sameValue compares strings exactly, numbers by value and true and false as
// they are written.
func sameValue(header string, value Raw) bool {
	if s, ok := String(value); ok {
		return header == s
	}
	return header == string(value) || equalNumbers(header, string(value))
}

// argument is the value at the path, nil when there is none. A null counts as none.
func (p ParamHeader) argument(arguments Raw) Raw {
	value := arguments
	for _, name := range p.Path {
		o, err := splitObject(value)
		if err != nil {
			return nil
		}
		value = o.Get(name)
	}
	if isNull(value) {
		return nil
	}
	return value
}

// equalNumbers compares exactly, at any size: 42 is 42.0 and 4.2e1, but
// 9007199254740993 is not 9007199254740992.
func equalNumbers(a, b string) bool {
	x, okA := parseDecimal(a)
	y, okB := parseDecimal(b)
	return okA && okB && x == y
}

// decimal is digits × 10^exponent, without zeros at either end of digits, so
// that equal numbers are equal decimals. Nothing is ever written out, so a huge
// exponent costs nothing.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// parseDecimal reads the number syntax of JSON.
func parseDecimal(s string) (d decimal, ok bool) {
	if v := jsontext.Value(s); v.Kind() != '0' || !v.IsValid() {
		return decimal{}, false
	}
	s, d.negative = strings.CutPrefix(s, "-")
	mantissa, exponent, found := strings.Cut(strings.ToLower(s), "e")
	if found {
		n, err := strconv.ParseInt(exponent, 10, 32)
		if err != nil {
			return decimal{}, false
		}
		d.exponent = int(n)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}, true // 0 and -0
	}
	d.exponent += len(digits) - len(d.digits) - len(fraction)
	return d, true
}
