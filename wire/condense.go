package wire

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// Text is what should be JSON, and what is to be looked at to know.
type Text struct{ raw, condensed Raw }

// Condense makes a Text of what came. It costs little, however large that is.
func Condense(raw []byte) Text {
	raw = bytes.TrimLeft(raw, whiteSpace)
	return Text{raw, condensed(raw)}
}

// condensed is valid JSON if, and only if, raw is; it can be much shorter. What is
// left out is most of long text within strings that nothing is wrong with, and
// which takes longest to be checked. Names of members are whole, so that those of
// an object can be compared.
func condensed(raw Raw) Raw {
	if len(raw) < large {
		return raw
	}
	c := condenser{splitter: splitter{raw: raw}}
	for c.nextString() {
		start := c.at
		c.skipString()
		if c.at-start > longText && !c.isName() {
			c.condense(start+1, c.at-1)
		}
	}
	if c.out == nil {
		return raw
	}
	return append(c.out, raw[c.done:]...)
}

const (
	longText = 256 // bytes of a string that is looked into, and of a piece of it that is left out
	// keptText of it stays, in bytes: the rest of an escape before it, and a
	// character, so that this escape does not meet the next one.
	keptText = len("uFFFF") + 1
)

type condenser struct {
	splitter
	out  Raw
	done int // so far raw is in out, or left out
}

// nextString steps to where a string begins.
func (c *condenser) nextString() bool {
	n := bytes.IndexByte(c.raw[c.at:], '"')
	c.at += max(n, 0)
	return n >= 0
}

// isName tells whether the string before is the name of a member.
func (c *condenser) isName() bool {
	ahead := c.splitter
	return ahead.accept(':')
}

// condense leaves out what it can of raw[start:end], which is within a string.
func (c *condenser) condense(start, end int) {
	for start < end {
		n := bytes.IndexByte(c.raw[start:end], '\\')
		if n < 0 {
			n = end - start
		}
		c.leaveOut(start, start+n)
		start += n + 1
	}
}

// leaveOut leaves raw[start:end] out, which has no escape, but for its beginning.
func (c *condenser) leaveOut(start, end int) {
	if end-start < longText || !utf8.Valid(c.raw[start:end]) || hasControls(c.raw[start:end]) {
		return
	}
	for start += keptText; !utf8.RuneStart(c.raw[start]); {
		start++
	}
	c.out = append(c.out, c.raw[c.done:start]...)
	c.done = end
}

// hasControls tells whether a byte is below 0x20. It looks at 32 at a time.
func hasControls(text []byte) bool {
	for ; len(text) >= 32; text = text[32:] {
		if (below20(text)|below20(text[8:])|below20(text[16:])|below20(text[24:]))&(0x80*each) != 0 {
			return true
		}
	}
	for _, c := range text {
		if c < 0x20 {
			return true
		}
	}
	return false
}

const each = 0x0101010101010101 // of eight bytes

// below20 has the highest bit of a byte set, of the first eight, if one of them is
// below 0x20.
func below20(text []byte) uint64 {
	v := binary.LittleEndian.Uint64(text)
	return (v - 0x20*each) &^ v
}
