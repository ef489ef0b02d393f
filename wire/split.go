package wire

import (
	"bytes"
	"errors"
	"strings"
)

const whiteSpace = " \t\r\n"

var errSplit = errors.New("not valid JSON")

// splitter finds where the parts of valid JSON begin and end, without looking
// into them. It is for what validate has passed, or what is part of that: on
// anything else it returns errSplit or nonsense, but stays inside the bytes.
type splitter struct {
	raw Raw
	at  int
}

// splitObject takes a valid JSON object apart. The values alias raw. It is small
// enough to be a part of its caller, who then needs no memory for an object that it
// does not keep, if that has no more members than most.
func splitObject(raw Raw) (Object, error) { return splitInto(make(Object, 0, 4), raw) }

func splitInto(o Object, raw Raw) (Object, error) {
	s := splitter{raw: raw}
	if !s.accept('{') {
		return nil, errNotObject
	}
	for !s.accept('}') {
		if len(o) > 0 && !s.accept(',') {
			return nil, errSplit
		}
		m := Member{name: s.value()}
		if !s.accept(':') {
			return nil, errSplit
		}
		m.Value = s.value()
		var ok bool
		if m.Name, ok = String(m.name); !ok || len(m.Value) == 0 {
			return nil, errSplit
		}
		o = append(o, m)
	}
	return o, nil
}

// Lookup is the member's value in an object of valid JSON, which is not taken
// apart for it; nil when there is none, or raw is something else.
func Lookup(raw Raw, name string) Raw {
	s := splitter{raw: raw}
	if !s.accept('{') {
		return nil
	}
	for first := true; !s.accept('}'); first = false {
		if !first && !s.accept(',') {
			return nil
		}
		is := s.value()
		if len(is) == 0 || !s.accept(':') {
			return nil
		}
		if value := s.value(); len(value) == 0 || quotes(is, name) {
			return value
		}
	}
	return nil
}

// quotes tells whether the JSON string is s.
func quotes(raw Raw, s string) bool {
	if len(raw) >= 2 && isPlain(raw[1:len(raw)-1]) {
		return string(raw[1:len(raw)-1]) == s
	}
	text, ok := String(raw)
	return ok && text == s
}

// splitArray takes a valid JSON array apart. The elements alias raw.
func splitArray(raw Raw) ([]Raw, error) {
	s := splitter{raw: raw}
	if !s.accept('[') {
		return nil, errNotArray
	}
	list := []Raw{}
	for !s.accept(']') {
		if len(list) > 0 && !s.accept(',') {
			return nil, errSplit
		}
		v := s.value()
		if len(v) == 0 {
			return nil, errSplit
		}
		list = append(list, v)
	}
	return list, nil
}

// accept steps over white space, and over c when that comes next.
func (s *splitter) accept(c byte) bool {
	s.skipSpace()
	if s.at < len(s.raw) && s.raw[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *splitter) skipSpace() {
	for s.at < len(s.raw) && isSpace(s.raw[s.at]) {
		s.at++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// value steps over the next value and returns it, empty when there is none.
func (s *splitter) value() Raw {
	s.skipSpace()
	start := s.at
	if s.at < len(s.raw) {
		switch s.raw[s.at] {
		case '"':
			s.skipString()
		case '{', '[':
			s.skipNested()
		default:
			s.skipLiteral()
		}
	}
	return s.raw[start:s.at]
}

func (s *splitter) skipString() {
	s.at++
	for {
		n := bytes.IndexByte(s.raw[s.at:], '"')
		if n < 0 {
			s.at = len(s.raw)
			return
		}
		text := s.raw[s.at : s.at+n]
		s.at += n + 1
		if backslashes := len(text) - len(bytes.TrimRight(text, `\`)); backslashes%2 == 0 {
			return
		}
	}
}

func (s *splitter) skipNested() {
	for depth := 0; s.at < len(s.raw); {
		switch s.raw[s.at] {
		case '"':
			s.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.at++
		if depth == 0 {
			return
		}
	}
}

// skipLiteral steps over a number, true, false or null.
func (s *splitter) skipLiteral() {
	for s.at < len(s.raw) && !isSpace(s.raw[s.at]) && strings.IndexByte(",:]}", s.raw[s.at]) < 0 {
		s.at++
	}
}

// Shape is how deep JSON nests, 0 for what is no object or array, and how many
// members all its objects have together. It costs little, and so can be asked for
// before anything else is; of what is not JSON it says something or other.
func (t Text) Shape() (depth, members int) {
	s := splitter{raw: t.condensed}
	for at := 0; s.at < len(s.raw); {
		switch s.raw[s.at] {
		case '"':
			s.skipString()
			continue
		case '{', '[':
			at++
			depth = max(depth, at)
		case '}', ']':
			at--
		case ':':
			members++
		}
		s.at++
	}
	return depth, members
}
