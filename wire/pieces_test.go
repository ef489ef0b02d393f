package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestPiecesLeaveWhatIsLargeWhereItIs(t *testing.T) {
	value := Raw(`"` + strings.Repeat("x", 2*large) + `"`)
	params := Object{}.With("first", Raw("1")).With("text", value).With("last", Raw(`"é"`))
	for name, pieces := range map[string]Pieces{
		"request": Request(Raw("7"), "tools/call", params),
		"message": Message{ID: Raw("7"), Result: value}.Pieces(),
	} {
		var apart int
		for _, p := range pieces {
			if len(p) > 0 && &p[0] == &value[0] {
				apart++
			}
		}
		if apart != 1 || len(pieces) != 3 {
			t.Errorf("%s: %d pieces, %d of which are the value", name, len(pieces), apart)
		}
		if pieces.Len() != len(pieces.Bytes()) || !json.Valid(pieces.Bytes()) {
			t.Errorf("%s: %d bytes, %.100s", name, pieces.Len(), pieces.Bytes())
		}
	}
}

func TestRequestIsTheMessageWithTheseParams(t *testing.T) {
	for _, in := range []string{`{}`, `{"a\u0062":1 , "c":{"d":[]}}`, `{"name":"x","text":"` + strings.Repeat("y", 2*large) + `","z":"` + strings.Repeat("z", large) + `"}`} {
		params, err := ParseObject(Raw(in))
		if err != nil {
			t.Fatal(err)
		}
		params = params.WithAll(Member{Name: "_meta", Value: Raw(`{"k":null}`)}, Member{Name: `quo"ted`})
		got := Request(Raw(`"id"`), "a/b", params).Bytes()
		if want := (Message{ID: Raw(`"id"`), Method: "a/b", Params: params.Bytes()}).Bytes(); !bytes.Equal(got, want) {
			t.Errorf("got  %.200s\nwant %.200s", got, want)
		}
		if _, rpc := Decode(got); rpc != nil {
			t.Errorf("%.100s: %v", got, rpc)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, c := range []struct{ in, name, want string }{
		{`{"a":1,"b":{"a":2}}`, "b", `{"a":2}`},
		{` { "a" : [ 1 ] , "b" : "x" } `, "b", `"x"`},
		{`{"\u0061":1}`, "a", "1"},
		{`{"é":1}`, "é", "1"},
		{`{"a":1}`, "A", ""},
		{`{"b":{"a":1}}`, "a", ""},
		{`{}`, "a", ""},
		{`["a",1]`, "a", ""},
		{`"a"`, "a", ""},
		{``, "a", ""},
		{`{"b":1`, "a", ""},
	} {
		if got := Lookup(Raw(c.in), c.name); string(got) != c.want {
			t.Errorf("%s of %s: %s, want %s", c.name, c.in, got, c.want)
		}
	}
}

func TestAModernResultIsNotCopied(t *testing.T) {
	for _, in := range []string{`{"resultType":"complete","content":[]}`, `{"resultType":"complete", "content":[],"_meta":{"k":1}}`} {
		out, err := ModernResult("tools/call", Raw(in), nil)
		if err != nil || string(out) != in {
			t.Errorf("%s: %s, %v", in, out, err)
		}
	}
}
