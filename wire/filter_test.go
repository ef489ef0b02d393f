package wire

import (
	"strings"
	"testing"
)

func filterOf(t *testing.T, raw string) Filter {
	t.Helper()
	f, err := ParseFilter(Raw(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return f
}

func TestFilterIsReadAndWritten(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: `{}`,
		`{"toolsListChanged":true,"promptsListChanged":false,"new":[1]}`: `{"toolsListChanged":true}`,
		`{"resourceSubscriptions":["b","a","b"],"taskIds":[]}`:           `{"resourceSubscriptions":["a","b"],"taskIds":[]}`,
		`{"resourcesListChanged":true,"taskIds":["t"]}`:                  `{"resourcesListChanged":true,"taskIds":["t"]}`,
		`{"toolsListChanged":null,"taskIds":null}`:                       `{}`,
	} {
		if got := string(filterOf(t, in).Object().Bytes()); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		`null`: "no object", `[]`: "no object",
		`{"toolsListChanged":"yes"}`:        "toolsListChanged",
		`{"resourceSubscriptions":["a",1]}`: "resourceSubscriptions",
		`{"taskIds":"t"}`:                   "taskIds",
	} {
		if _, err := ParseFilter(Raw(in)); err == nil || err.Code != CodeInvalidParams || !strings.Contains(err.Message, want) {
			t.Errorf("%s: error %v, want one about %s", in, err, want)
		}
	}
}

func TestFilterAlgebra(t *testing.T) {
	a := filterOf(t, `{"toolsListChanged":true,"resourceSubscriptions":["x","y"]}`)
	b := filterOf(t, `{"promptsListChanged":true,"toolsListChanged":true,"resourceSubscriptions":["y","z"]}`)
	if got := string(a.Union(b).Object().Bytes()); got != `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x","y","z"]}` {
		t.Errorf("union: %s", got)
	}
	if got := string(a.Common(b).Object().Bytes()); got != `{"toolsListChanged":true,"resourceSubscriptions":["y"]}` {
		t.Errorf("common: %s", got)
	}
	if !a.Common(a.Union(b)).Equal(a) || a.Equal(b) {
		t.Error("a part of the union is not itself")
	}
	offered := a.Offered(Raw(`{"tools":{},"resources":{"subscribe":true}}`))
	if got := string(offered.Object().Bytes()); got != `{"resourceSubscriptions":["x","y"]}` {
		t.Errorf("offered: %s", got)
	}
	if !a.Offered(nil).IsEmpty() || a.IsEmpty() {
		t.Error("a server without capabilities offers something")
	}
}

func TestFilterAdmits(t *testing.T) {
	f := filterOf(t, `{"toolsListChanged":true,"resourceSubscriptions":["file:///a","file:///dir/"]}`)
	for _, c := range []struct {
		method, params string
		want           bool
	}{
		{NoteTools, ``, true},
		{NotePrompts, ``, false},
		{"notifications/message", `{}`, false},
		{NoteResource, `{"uri":"file:///a"}`, true},
		{NoteResource, `{"uri":"file:///a/b"}`, true},
		{NoteResource, `{"uri":"file:///a?q"}`, true},
		{NoteResource, `{"uri":"file:///ab"}`, false},
		{NoteResource, `{"uri":"file:///dir/x"}`, true},
		{NoteResource, `{"uri":"file:///"}`, false},
		{NoteResource, `{}`, false},
	} {
		if got := f.Admits(c.method, Raw(c.params)); got != c.want {
			t.Errorf("%s %s: admitted %v, want %v", c.method, c.params, got, c.want)
		}
	}
}
