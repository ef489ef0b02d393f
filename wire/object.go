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
	name  Raw    // as it was written; nil: it was not yet
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

func validate(raw Raw) error { return Text{raw, condensed(raw)}.validate() }

// validate wants exactly one JSON value that all parsers read alike.
func (t Text) validate() error {
	if jsontext.Value(t.condensed).IsValid() {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(t.raw)) // says why
	if _, err := dec.ReadValue(); err != nil {
		return err
	}
	rest := bytes.TrimLeft(t.raw[dec.InputOffset():], whiteSpace)
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
	return o.objectInto(make(Object, 0, 4), name) // as in splitObject
}

func (o Object) objectInto(room Object, name string) (member Object, ok bool) {
	member, err := splitInto(room, o.Get(name))
	return member, err == nil
}

// With returns the object with the member set: in its old place when it was
// there, else at the end. A nil value is written as null. The receiver is not
// changed.
func (o Object) With(name string, value Raw) Object {
	return o.WithAll(Member{Name: name, Value: value})
}

// WithAll is With for several members.
func (o Object) WithAll(members ...Member) Object {
	out := append(make(Object, 0, len(o)+len(members)), o...)
	for _, m := range members {
		if m.Value == nil {
			m.Value = Raw("null")
		}
		if i := slices.IndexFunc(out, func(has Member) bool { return has.Name == m.Name }); i >= 0 {
			out[i].Value = m.Value
		} else {
			out = append(out, m)
		}
	}
	return out
}

// Without returns the object less the named members. The receiver is not changed.
func (o Object) Without(names ...string) Object {
	named := func(m Member) bool { return slices.Contains(names, m.Name) }
	if !slices.ContainsFunc(o, named) {
		return o[:len(o):len(o)]
	}
	var out Object
	for i, m := range o {
		if !named(m) {
			out = append(slices.Grow(out, len(o)-i), m)
		}
	}
	return out
}

// is tells whether o is p itself, and no changed copy.
func (o Object) is(p Object) bool {
	return len(o) == len(p) && (len(o) == 0 || &o[0] == &p[0])
}

// Bytes writes the object out.
func (o Object) Bytes() Raw {
	a := assembly{apart: together, text: make([]byte, 0, o.size(together))}
	a.object(o)
	return a.text
}

// size is about how long the object is without values from that length on.
func (o Object) size(from int) int {
	size := 2
	for i := range o {
		size += len(o[i].Name) + len(`"":,`)
		if len(o[i].Value) < from {
			size += len(o[i].Value)
		}
	}
	return size
}

func (m *Member) appendName(out []byte) []byte {
	if m.name != nil {
		return append(out, m.name...)
	}
	return appendQuote(out, m.Name)
}

// ImpostorOf returns the first member whose name is not one of known but would
// be taken for it by a parser that folds case (as several JSON libraries do).
// Such a member may make a server act on something no policy has seen.
func (o Object) ImpostorOf(known ...string) (member, name string) {
	for i := range o {
		if slices.Contains(known, o[i].Name) {
			continue
		}
		for _, k := range known {
			if strings.EqualFold(o[i].Name, k) {
				return o[i].Name, k
			}
		}
	}
	return "", ""
}

// Quote writes s as a JSON string. Invalid UTF-8 in it becomes U+FFFD.
func Quote(s string) Raw { return appendQuote(nil, s) }

func appendQuote(out []byte, s string) []byte {
	out, _ = jsontext.AppendQuote(out, s) // the error says what is said above
	return out
}

// String returns the JSON string in raw; ok is false when raw is not one.
func String(raw Raw) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if len(raw) <= longestKnown {
		if s, ok = wellKnown[string(raw)]; ok {
			return s, true
		}
	}
	if text := raw[1 : len(raw)-1]; raw[len(raw)-1] == '"' && isPlain(text) {
		return string(text), true
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	return string(b), err == nil
}

// wellKnown are the strings that most messages have, by how they are written, so
// that not each message has its own of them.
var wellKnown = func() map[string]string {
	known := map[string]string{}
	for _, list := range [][]string{envelopeMembers, paramMembers, metaMembers, capabilityMembers, standardMethods,
		{"2.0", Version, "resultType", ResultComplete, "content", "isError", "structuredContent", TasksExtension}} {
		for _, s := range list {
			known[`"`+s+`"`] = s
		}
	}
	return known
}()

// longestKnown is how long they are at most, as they are written.
const longestKnown = len(MetaCapabilities) + len(`""`)

// isPlain tells text that is the same within quotes and without.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
