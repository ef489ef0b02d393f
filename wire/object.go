package wire

import (
	"bytes"
	"errors"
	"fmt"
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
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return nil, err
		}
		return nil, errNotObject
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var o Object
	for dec.PeekKind() != '}' {
		m, err := readMember(dec, raw)
		if err != nil {
			return nil, err
		}
		o = append(o, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	if rest := bytes.TrimLeft(raw[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes after the JSON value", len(rest))
	}
	return o, nil
}

// readMember reads the next name and value and points them into raw, because
// the decoder's own bytes do not live on.
func readMember(dec *jsontext.Decoder, raw Raw) (Member, error) {
	n, err := dec.ReadValue()
	if err != nil {
		return Member{}, err
	}
	end := dec.InputOffset()
	m := Member{name: raw[end-int64(len(n)) : end]}
	if m.Name, err = unquote(m.name); err != nil {
		return Member{}, err
	}
	v, err := dec.ReadValue()
	if err != nil {
		return Member{}, err
	}
	end = dec.InputOffset()
	m.Value = raw[end-int64(len(v)) : end]
	return m, nil
}

func unquote(raw Raw) (string, error) {
	b, err := jsontext.AppendUnquote(nil, raw)
	return string(b), err
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

// With returns the object with the member set: in its old place when it was
// there, else at the end. The receiver is not changed.
func (o Object) With(name string, value Raw) Object {
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
		if !contains(names, m.Name) {
			out = append(out, m)
		}
	}
	return out
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
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

// Quote writes s as a JSON string.
func Quote(s string) Raw {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil { // only invalid UTF-8; AppendQuote has replaced it
		return b
	}
	return b
}

// String returns the JSON string in raw; ok is false when raw is not one.
func String(raw Raw) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	s, err := unquote(raw)
	return s, err == nil
}
