package strictyaml

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

type colour string

func (colour) Values() []string { return []string{"red", "green"} }

type upper string

func (u *upper) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("is empty")
	}
	*u = upper(strings.ToUpper(string(b)))
	return nil
}

type item struct {
	Name string  `yaml:"name"`
	N    int     `yaml:"n"`
	Part float64 `yaml:"part"`
}

func (i *item) SetDefaults() { i.N = 7 }

type inner struct {
	Flag *bool `yaml:"flag"`
}

type doc struct {
	Text  string         `yaml:"text"`
	Wait  time.Duration  `yaml:"wait"`
	Hue   colour         `yaml:"hue"`
	Loud  upper          `yaml:"loud"`
	Items []item         `yaml:"items"`
	Table map[string]int `yaml:"table"`
	Opt   *item          `yaml:"opt"`
	inner
	Hidden string
}

func TestDecode(t *testing.T) {
	got := doc{Text: "kept", Hidden: "kept"}
	lines, mistakes := Decode([]byte(`
wait: 1m30s
hue: green
loud: hi
items:
  - name: a
  - {name: b, n: 0}
table: {x: 1, "2": 3}
opt: {name: o}
flag: true
`), &got)
	if mistakes != nil {
		t.Fatal(mistakes)
	}
	yes := true
	want := doc{
		Text: "kept", Wait: 90 * time.Second, Hue: "green", Loud: "HI", Items: []item{{"a", 7, 0}, {"b", 0, 0}},
		Table: map[string]int{"x": 1, "2": 3}, Opt: &item{"o", 7, 0}, inner: inner{&yes}, Hidden: "kept",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for path, line := range map[string]int{"wait": 2, "items": 5, "items[1]": 7, "items[1].n": 7, "table.x": 8, "opt.name": 9} {
		if lines[path] != line {
			t.Errorf("%s: line %d, want %d", path, lines[path], line)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"txt: a", `1: unknown key "txt"; did you mean text?`},
		{"Hidden: a", `1: unknown key "Hidden"; write one of text, wait, hue, loud, items, table, opt, flag`},
		{"text: a\ntext: b", `2: text: is set a second time; line 1 sets it already`},
		{"table: {a: 1, a: 2}", `1: table.a: is set a second time; line 1 sets it already`},
		{"text:", `1: text: has no value; write one or remove the key`},
		{"text: 1", `1: text: want text, not a number; write "1" in quotes if that is meant`},
		{"text: 2026-01-01", `1: text: want text, not a date; write "2026-01-01" in quotes if that is meant`},
		{"text: [a]", `1: text: want a single value, not a list`},
		{"wait: 5", `1: wait: "5" has no unit; write 5s for seconds, or use ms, m or h`},
		{"wait: 2d", `1: wait: "2d": days are not a unit; write 48h`},
		{"hue: gren", `1: hue: "gren" is not known; did you mean green?`},
		{"hue: blue", `1: hue: "blue" is not known; write one of red, green`},
		{"loud: ''", `1: loud: is empty`},
		{"items: {name: a}", `1: items: want a list, not a mapping`},
		{"items: [a]", `1: items[0]: want a mapping of keys to values, not "a"`},
		{"items:\n- n: -1", `2: items[0].n: want a whole number that is not negative, not "-1"`},
		{"items:\n- n: 1.5", `2: items[0].n: want a whole number that is not negative, not "1.5"`},
		{"items:\n- part: half", `2: items[0].part: want a number, not "half"`},
		{"flag: yes", `1: flag: want true or false, not "yes"`},
		{"{[a]: b}", `1: want a plain key, not a list`},
		{"[]", `1: want a mapping of keys to values, not a list`},
		{"", `1: the file is empty`},
		{"# nothing", `1: the file is empty`},
		{"text: a\n---\ntext: b", `2: a second document begins here; move it into a file of its own`},
		{"text: a\n---\n[", `3: not valid YAML: did not find expected node content`},
		{"text: a\n\twait: 1s", `2: a tab; YAML is indented with spaces`},
		{"text: a\nhue: *", `2: a value that begins with * must be in quotes, as in "*"`},
		{"items: [*.b]", `1: a value that begins with * must be in quotes, as in "*"`},
		{"text: a\n  wait: 1s", `2: not valid YAML: mapping values are not allowed in this context`},
		{"<<: {text: a}", `1: unknown key "<<"; write one of text, wait, hue, loud, items, table, opt, flag`},
	} {
		_, mistakes := Decode([]byte(c.yaml), &doc{})
		if len(mistakes) != 1 {
			t.Errorf("%q: %v", c.yaml, mistakes)
			continue
		}
		if got := fmt.Sprintf("%d: %s", mistakes[0].Line, mistakes[0].Text()); got != c.want {
			t.Errorf("%q:\ngot  %s\nwant %s", c.yaml, got, c.want)
		}
	}
}

// TestMistakeIsNotHalfAValue: what is optional stays unset when it is wrong, and
// the rest is read.
func TestMistakeIsNotHalfAValue(t *testing.T) {
	var got doc
	if _, mistakes := Decode([]byte("opt: {name: a, n: x}\ntext: b"), &got); len(mistakes) != 1 || got.Opt != nil || got.Text != "b" {
		t.Errorf("got %+v, %v", got, mistakes)
	}
}

// TestAlias: an alias is read as what it stands for; one that contains itself ends.
func TestAlias(t *testing.T) {
	var got doc
	if _, mistakes := Decode([]byte("items: [&a {name: x}, *a]"), &got); mistakes != nil || len(got.Items) != 2 || got.Items[1] != (item{"x", 7, 0}) {
		t.Errorf("got %+v, %v", got.Items, mistakes)
	}
	if _, mistakes := Decode([]byte("items: &a [*a]"), &got); len(mistakes) != 1 {
		t.Errorf("got %v", mistakes)
	}
}

func TestNearest(t *testing.T) {
	among := []string{"promoteAfter", "timeout", "idleTimeout", "ttl"}
	for word, want := range map[string]string{"promoteafter": "promoteAfter", "time-out": "timeout", "tt": "ttl", "zzzzzz": ""} {
		if got := Nearest(word, among); (want == "" && got != nil) || (want != "" && (len(got) == 0 || got[0] != want)) {
			t.Errorf("%s: got %v, want %s", word, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("text: a\nitems: [&a {name: x}, *a]\ntable: {a: 1}\n"))
	f.Add([]byte("wait: 1m\n---\n"))
	f.Add([]byte("{[a]: b, ? c : *d}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second doc
		_, a := Decode(data, &first)
		_, b := Decode(data, &second)
		if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(first, second) {
			t.Errorf("%v, then %v", a, b)
		}
		for _, m := range a {
			if m.Message == "" || m.Line < 0 {
				t.Errorf("an empty mistake: %+v", m)
			}
		}
	})
}
