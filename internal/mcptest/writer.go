package mcptest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Writer makes random JSON with all that a careless gateway changes: large
// integers, other spellings of the same number or string, order, white space.
type Writer struct{ random *rand.Rand }

// NewWriter returns one that writes the same for the same seed.
func NewWriter(seed uint64) Writer { return Writer{rand.New(rand.NewPCG(seed, 1))} }

func (w Writer) pick(list ...string) string { return list[w.random.IntN(len(list))] }

func (w Writer) space() string { return w.pick("", "", "", " ", "\n\t") }

// Value is any JSON value, with at most depth levels.
func (w Writer) Value(depth int) string {
	if depth == 0 || w.random.IntN(3) == 0 {
		return w.pick(`null`, `true`, `0`, `-0`, `1.0`, `1e2`, `1E+2`, `9007199254740993`, `123456789012345678901234567890`, `0.1000000000000000055`,
			`""`, `"\u00e9"`, `"é"`, `"\/"`, `"a\ud83d\ude00b"`, `"😀"`, `"<&>"`, `"\u2028"`, `[]`, `{}`)
	}
	if w.random.IntN(2) == 0 {
		return w.Object(depth - 1)
	}
	var items []string
	for range w.random.IntN(4) {
		items = append(items, w.space()+w.Value(depth-1)+w.space())
	}
	return "[" + strings.Join(items, ",") + "]"
}

// Object is an object with at most depth levels below it.
func (w Writer) Object(depth int) string { return w.object(depth, w.random.IntN(5), w.space) }

// object has n members under names that differ.
func (w Writer) object(depth, n int, space func() string) string {
	var members []string
	for i := range n {
		name := fmt.Sprintf("%s%d", w.pick("z", "a", "B", "é", "_", "\\u0061", "$ref", " "), i)
		members = append(members, space()+`"`+name+`"`+space()+":"+space()+w.Value(depth)+space())
	}
	return "{" + strings.Join(members, ",") + "}"
}

func none() string { return "" }

// ID is a request id that is easily taken for another.
func (w Writer) ID() string {
	return w.pick(`1`, `"1"`, `1.5`, `0`, `-7`, `12345678901234567890`, `"\u0061"`, `"a"`, `"é\n"`, `""`)
}

// Result is a tool result with the members that some know, and others.
func (w Writer) Result() string {
	o := strings.TrimSuffix(w.object(4, w.random.IntN(5), none), "}")
	if len(o) > 1 {
		o += ","
	}
	o += `"content":[{"type":"text","text":` + w.pick(`"x"`, `"\u0078"`) + `}],"structuredContent":` + w.Value(4)
	if w.random.IntN(2) == 0 {
		o += `,"_meta":` + w.object(3, 1+w.random.IntN(3), none)
	}
	if w.random.IntN(2) == 0 {
		o += `,"isError":` + w.pick("true", "false")
	}
	return o + "}"
}

// Error is an error object with a code of the server's own.
func (w Writer) Error() string {
	return `{"data":` + w.Value(4) + `,"message":` + w.pick(`"no"`, `"n\u006f"`, `"é"`) + `,"code":-32050,"extra":` + w.Value(2) + `}`
}
