package wire

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	much      = strings.Repeat("much too much ", 400)
	condenses = []string{
		`{"a":"` + much + `"}`,
		`{"a":"` + much + `\n` + much + `\ud83d\ude00` + much + `\\"}`,
		`{"a":"` + strings.Repeat("größer ", 900) + `"}`,
		`["` + much + `\\","` + much + `\""]`,
		`["` + much + `\"]","x"]`,
		`{"` + much + `1":1,"` + much + `2":2}`,
		`{"` + much + `1":1,"` + much + `1":2}`,
		`{"` + much + `\u0031" :1,"` + much + `1":2}`,
		`["` + much + `\ud83d` + much + `\ude00"]`, // halves of a character apart
		`["` + much + `\ud83dx\ude00` + much + `"]`,
		`["` + much + `\u12"]`,
		`["` + much + `\u12` + much + `"]`,
		`["` + much + `\x` + much + `"]`,
		"[\"" + much + "\n" + much + "\"]",
		"[\"" + much + "\x00\"]",
		"[\"" + much + "\x7f\"]",
		"[\"" + much + "\xff" + much + "\"]",
		"[\"" + much + "\xe4\"]",
		`["` + much + `"`,
		`["` + much,
		`["` + much + `" "` + much + `"]`,
		`"` + much + `"` + `"` + much + `"`,
		`{"a":"` + much + `","b"}`,
		much + `"` + much + `"`,
		`[` + much + `"` + much + `"]`,
	}
)

func TestCondensedIsValidIfTheRestIs(t *testing.T) {
	valid := 0
	for _, in := range condenses {
		ok := jsontext.Value(in).IsValid()
		if got := condensed(Raw(in)); jsontext.Value(got).IsValid() != ok {
			t.Errorf("%.40s… %d bytes: valid is %v; condensed to %d bytes: %.300s", in, len(in), ok, len(got), got)
		}
		if ok {
			valid++
		}
	}
	if valid < 5 || valid > len(condenses)-5 {
		t.Errorf("%d of %d are valid", valid, len(condenses))
	}
}

func TestLongTextIsCondensed(t *testing.T) {
	for _, in := range condenses[:3] {
		if got := condensed(Raw(in)); len(got) > 100 {
			t.Errorf("%d of %d bytes are left: %s", len(got), len(in), got)
		}
	}
}

func FuzzCondensed(f *testing.F) {
	for _, in := range condenses {
		f.Add([]byte(strings.ReplaceAll(in, much, "@")))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		raw := Raw(strings.ReplaceAll(string(in), "@", much)) // so that short inputs are long
		if ok, got := jsontext.Value(raw).IsValid(), condensed(raw); jsontext.Value(got).IsValid() != ok {
			t.Errorf("%q: valid is %v; condensed: %.300q", in, ok, got)
		}
		depth, members := Text{raw, raw}.Shape()
		if d, m := Condense(raw).Shape(); d != depth || m != members {
			t.Errorf("%q: depth %d, %d members; condensed: %d, %d", in, depth, members, d, m)
		}
	})
}
