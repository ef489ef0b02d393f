package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Object is a JSON object taken apart one level deep: its members in order,
// each name and value with the bytes they came in. White space between members
// is the only thing that Bytes does not give back.
type Object []Member

// Member is one name and value of an Object.
type Member struct {
	Name  string // decoded
	name  Raw    // as it was written
	Value Raw
}

var (
	errNotObject = errors.New("not a JSON object")
	errNotArray  = errors.New("not a JSON array")
)

// ParseObject takes raw apart. It refuses what is not exactly one JSON object,
// duplicate names at any depth and invalid UTF-8. The values alias raw.
func ParseObject(raw Raw) (Object, error) {
	if err := validate(raw); err != nil {
		return nil, err
	}
	return splitObject(raw)
}

// ParseArray takes a JSON array apart under the same conditions.
func ParseArray(raw Raw) ([]Raw, error) {
	if err := validate(raw); err != nil {
		return nil, err
	}
	return splitArray(raw)
}

// validate wants exactly one JSON value that all parsers read alike.
func validate(raw Raw) error {
	if jsontext.Value(raw).IsValid() {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw)) // says why
	if _, err := dec.ReadValue(); err != nil {
		return err
	}
	rest := bytes.TrimLeft(raw[dec.InputOffset():], whiteSpace)
	return fmt.Errorf("%d bytes after the JSON value", len(rest))
}

// Get returns the member's value, or nil when the object has no such member.
func (o Object) Get(name string) Raw {
	for i := range o {
		if o[i].Name == name {
			return o[i].Value
		}
	}
	return nil
}

// Object takes the member's value apart; ok is false when it is no object.
func (o Object) Object(name string) (member Object, ok bool) {
	member, err := splitObject(o.Get(name))
	return member, err == nil
}

// With returns the object with the member set: in its old place when it was
// there, else at the end. A nil value is written as null. The receiver is not
// changed.
func (o Object) With(name string, value Raw) Object {
	if value == nil {
		value = Raw("null")
	}
	out := make(Object, len(o), len(o)+1)
	copy(out, o)
	for i := range out {
		if out[i].Name == name {
			out[i].Value = value
			return out
		}
	}
	return append(out, Member{Name: name, name: Quote(name), Value: value})
}

// Without returns the object less the named members. The receiver is not changed.
func (o Object) Without(names ...string) Object {
	out := make(Object, 0, len(o))
	for _, m := range o {
		if !slices.Contains(names, m.Name) {
			out = append(out, m)
		}
	}
	return out
}

// Bytes writes the object out.
func (o Object) Bytes() Raw {
	size := 2
	for _, m := range o {
		size += len(m.name) + len(m.Value) + 2
	}
	out := append(make(Raw, 0, size), '{')
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, m.name...)
		out = append(out, ':')
		out = append(out, m.Value...)
	}
	return append(out, '}')
}

// ImpostorOf returns the first member whose name is not one of known but would
// be taken for it by a parser that folds case (as several JSON libraries do).
// Such a member may make a server act on something no policy has seen.
func (o Object) ImpostorOf(known ...string) (member, name string) {
	for _, m := range o {
		for _, k := range known {
			if m.Name != k && strings.EqualFold(m.Name, k) {
				return m.Name, k
			}
		}
	}
	return "", ""
}

// Quote writes s as a JSON string. Invalid UTF-8 in it becomes U+FFFD.
func Quote(s string) Raw {
	b, _ := jsontext.AppendQuote(nil, s) // the error says what is said above
	return b
}

// String returns the JSON string in raw; ok is false when raw is not one.
func String(raw Raw) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if text := raw[1 : len(raw)-1]; raw[len(raw)-1] == '"' && isPlain(text) {
		return string(text), true
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	return string(b), err == nil
}

// isPlain tells text that is the same within quotes and without.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
