package wire

import "math"

// Pieces are bytes that go out one after the other. What is large in them is not
// copied together: it stays where it was received.
type Pieces [][]byte

// Len is how many bytes they are.
func (p Pieces) Len() int {
	n := 0
	for _, b := range p {
		n += len(b)
	}
	return n
}

// Bytes puts them together.
func (p Pieces) Bytes() []byte {
	if len(p) == 1 {
		return p[0]
	}
	out := make([]byte, 0, p.Len())
	for _, b := range p {
		out = append(out, b...)
	}
	return out
}

// large, in bytes, is what is worth a piece of its own; together is larger than
// anything.
const (
	large    = 4 << 10
	together = math.MaxInt
)

// assembly is JSON that is being written.
type assembly struct {
	apart  int // how long a value has to be for a piece of its own
	pieces Pieces
	text   []byte // what comes after them
}

// value adds JSON that is there already.
func (a *assembly) value(raw []byte) {
	if len(raw) < a.apart {
		a.text = append(a.text, raw...)
		return
	}
	a.pieces = append(a.pieces, a.text, raw)
	a.text = a.text[len(a.text):]
}

// member adds a member of the envelope, unless it has no value.
func (a *assembly) member(name string, value Raw) {
	if value == nil {
		return
	}
	a.name(name)
	a.value(value)
}

func (a *assembly) name(name string) {
	a.text = append(a.text, `,"`...)
	a.text = append(a.text, name...)
	a.text = append(a.text, `":`...)
}

func (a *assembly) object(o Object) {
	a.text = append(a.text, '{')
	for i := range o {
		if i > 0 {
			a.text = append(a.text, ',')
		}
		a.text = o[i].appendName(a.text)
		a.text = append(a.text, ':')
		a.value(o[i].Value)
	}
	a.text = append(a.text, '}')
}

func (a *assembly) end() Pieces { return append(a.pieces, a.text) }

// Request is a message that asks, with params that are taken apart.
func Request(id Raw, method string, params Object) Pieces {
	a := assembly{apart: large, text: make([]byte, 0, 64+len(id)+len(method)+params.size(large))}
	a.text = append(a.text, envelope...)
	a.member("id", id)
	a.name("method")
	a.text = appendQuote(a.text, method)
	a.name("params")
	a.object(params)
	a.text = append(a.text, '}')
	return a.end()
}

const envelope = `{"jsonrpc":"2.0"`

// Pieces writes the message out with the members in the usual order.
func (m Message) Pieces() Pieces {
	size := 64 + len(m.ID) + len(m.Method)
	for _, value := range [...]Raw{m.Params, m.Result, m.Error} {
		if len(value) < large {
			size += len(value)
		}
	}
	a := assembly{apart: large, text: append(make([]byte, 0, size), envelope...)}
	a.member("id", m.ID)
	if m.Method != "" {
		a.name("method")
		a.text = appendQuote(a.text, m.Method)
	}
	a.member("params", m.Params)
	a.member("result", m.Result)
	a.member("error", m.Error)
	a.text = append(a.text, '}')
	return a.end()
}

// Bytes is Pieces, put together.
func (m Message) Bytes() []byte { return m.Pieces().Bytes() }
