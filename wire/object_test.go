package wire

import (
	"slices"
	"strings"
	"testing"
)

func parse(t *testing.T, in string) Object {
	t.Helper()
	o, err := ParseObject(Raw(in))
	if err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	return o
}

func TestObjectKeepsBytes(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:      `{}`,
		" { } \n": `{}`,
		`{"b":1.0,"a":[ 1 , 2 ],"c":{"x" : "\u0041"}}`:                     `{"b":1.0,"a":[ 1 , 2 ],"c":{"x" : "\u0041"}}`,
		"{\r\n\t\"a\" :\n9007199254740993 , \"\\u0062\": \"}\\\\\\\"{\" }": `{"a":9007199254740993,"\u0062":"}\\\"{"}`,
		`{"":null,"a":true,"b":-1e400}`:                                    `{"":null,"a":true,"b":-1e400}`,
	} {
		if got := parse(t, in).Bytes(); string(got) != want {
			t.Errorf("%s: got %s", in, got)
		}
	}
}

func TestObjectGet(t *testing.T) {
	o := parse(t, `{"a":1,"\u0062":{"c":2},"d":null}`)
	for name, want := range map[string]string{"a": "1", "b": `{"c":2}`, "d": "null", "A": "", "": ""} {
		if got := o.Get(name); string(got) != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if b, ok := o.Object("b"); !ok || string(b.Get("c")) != "2" {
		t.Errorf("b: %v %v", b, ok)
	}
	for _, name := range []string{"a", "d", "none"} {
		if _, ok := o.Object(name); ok {
			t.Errorf("%s is no object", name)
		}
	}
}

func TestObjectWith(t *testing.T) {
	o := parse(t, `{"a":1,"b":2}`)
	for want, got := range map[string]Object{
		`{"a":1,"b":2}`:            o,
		`{"a":3,"b":2}`:            o.With("a", Raw("3")),
		`{"a":1,"b":2,"c\"":[]}`:   o.With(`c"`, Raw("[]")),
		`{"a":1,"b":2,"c":null}`:   o.With("c", nil),
		`{"b":2}`:                  o.Without("a", "x"),
		`{}`:                       o.Without("a", "b"),
		`{"a":1,"b":2,"d":4}`:      o.With("c", Raw("3")).Without("c").With("d", Raw("4")),
		`{"x":1}`:                  Object{}.With("x", Raw("1")),
		`{"a":1,"b":2,"\ufffd":0}`: o.With("\xff", Raw("0")),
	} {
		if string(got.Bytes()) != strings.ReplaceAll(want, `\ufffd`, "\ufffd") {
			t.Errorf("got %s, want %s", got.Bytes(), want)
		}
	}
}

func TestObjectsDoNotShareChanges(t *testing.T) {
	base := parse(t, `{"a":1}`).With("b", Raw("2"))
	x, y := base.With("c", Raw("3")), base.With("d", Raw("4"))
	if string(x.Bytes()) != `{"a":1,"b":2,"c":3}` || string(y.Bytes()) != `{"a":1,"b":2,"d":4}` {
		t.Errorf("got %s and %s", x.Bytes(), y.Bytes())
	}
}

func TestParseObjectRefuses(t *testing.T) {
	for in, want := range map[string]string{
		``: "EOF", `[]`: "not a JSON object", `1`: "not a JSON object", `null`: "not a JSON object",
		`{}{}`: "2 bytes after", `{"a":1,"a":1}`: "duplicate", `{"a":{"b":1,"b":1}}`: "duplicate", `{"a"}`: "invalid character",
	} {
		if _, err := ParseObject(Raw(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestParseArray(t *testing.T) {
	list, err := ParseArray(Raw(` [ 1, "a,]" ,{"b":[2]},[], null ] `))
	if err != nil || string(slices.Concat(list...)) != `1"a,]"{"b":[2]}[]null` || len(list) != 5 {
		t.Errorf("got %s, %v", list, err)
	}
	for _, in := range []string{``, `{}`, `[1`, `[1]]`, `[{"a":1,"a":1}]`} {
		if _, err := ParseArray(Raw(in)); err == nil {
			t.Errorf("%s was taken", in)
		}
	}
}

// What is not valid JSON never reaches the splitter; if it does, it must not
// run past the end.
func TestSplitterStaysInside(t *testing.T) {
	for _, in := range []string{`{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":"\`, `{"a":[`, `{"a":1 "b":2}`, `{1:2}`, `{"a" 1}`, `{"a":}`, `{"a":1,}`} {
		if o, err := splitObject(Raw(in)); err == nil {
			t.Errorf("%s: %v", in, o)
		}
	}
	for _, in := range []string{`[`, `[1`, `[,]`, `[1 2]`, `["`} {
		if list, err := splitArray(Raw(in)); err == nil {
			t.Errorf("%s: %s", in, list)
		}
	}
}

func TestImpostorOf(t *testing.T) {
	for _, c := range []struct{ in, member, known string }{
		{`{"name":1}`, "", ""},
		{`{"name":1,"Name":2}`, "Name", "name"},
		{`{"tas\u212as":2}`, "", ""},
		{`{"tas\u212a":2}`, "tas\u212a", "task"},
		{`{"ta\u017fk":2}`, "ta\u017fk", "task"},
		{`{"names":1}`, "", ""},
	} {
		if m, k := parse(t, c.in).ImpostorOf("name", "task"); m != c.member || k != c.known {
			t.Errorf("%s: %q for %q", c.in, m, k)
		}
	}
}

func TestString(t *testing.T) {
	for in, want := range map[string]string{`"a\u0062\n"`: "ab\n", `""`: "", `"😀"`: "😀", `"\ud83d\ude00"`: "😀"} {
		if got, ok := String(Raw(in)); !ok || got != want {
			t.Errorf("%s: %q %v", in, got, ok)
		}
	}
	for _, in := range []string{``, `1`, `null`, `{"a":1}`, `"`, `"\ud83d"`} {
		if got, ok := String(Raw(in)); ok {
			t.Errorf("%s: %q", in, got)
		}
	}
	for _, s := range []string{"", "a", "\"\\\n\x00\u2028<>&é😀"} {
		if got, ok := String(Quote(s)); !ok || got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}
