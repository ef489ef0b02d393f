package wire

import (
	"fmt"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     Message
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`,
			Message{ID: Raw("1"), Method: "tools/call", Params: Raw(`{"name":"a"}`)}},
		{"any order, white space, unknown members", " {\"x\" : [ ] ,\n\"method\":\"m\",\t\"id\" : \"7\",\r\"jsonrpc\":\"2.0\"}\n",
			Message{ID: Raw(`"7"`), Method: "m"}},
		{"escaped name and value", `{"jsonrpc":"2\u002e0","id":1,"m\u0065thod":"tools\/call"}`,
			Message{ID: Raw("1"), Method: "tools/call"}},
		{"notification", `{"jsonrpc":"2.0","method":"m"}`, Message{Method: "m"}},
		{"result", `{"jsonrpc":"2.0","id":1,"result":{"n":9007199254740993}}`,
			Message{ID: Raw("1"), Result: Raw(`{"n":9007199254740993}`)}},
		{"null result", `{"jsonrpc":"2.0","id":1,"result":null}`, Message{ID: Raw("1"), Result: Raw("null")}},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-1}}`, Message{ID: Raw("1"), Error: Raw(`{"code":-1}`)}},
		{"error without id", `{"jsonrpc":"2.0","error":{}}`, Message{Error: Raw(`{}`)}},
		{"error with null id", `{"jsonrpc":"2.0","id":null,"error":{}}`, Message{Error: Raw(`{}`)}},
		{"null error beside a result", `{"jsonrpc":"2.0","id":1,"result":{},"error":null}`, Message{ID: Raw("1"), Result: Raw(`{}`)}},
		{"null result beside an error", `{"jsonrpc":"2.0","id":1,"result":null,"error":{}}`, Message{ID: Raw("1"), Error: Raw(`{}`)}},
		{"null params", `{"jsonrpc":"2.0","id":1,"method":"m","params":null}`, Message{ID: Raw("1"), Method: "m"}},
	} {
		got, err := Decode([]byte(c.in))
		if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
			t.Errorf("%s: got %q, %v", c.name, got, err)
		}
	}
}

func TestDecodeKeepsIDs(t *testing.T) {
	for _, id := range []string{`1`, `"1"`, `-0`, `1.5`, `1.0`, `12345678901234567890`, `1e400`, `""`, `"\u0031"`, `"é"`} {
		m, err := Decode([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"m"}`))
		if err != nil || string(m.ID) != id {
			t.Errorf("id %s came out as %s, %v", id, m.ID, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	rest := `,"jsonrpc":"2.0","id":7,"method":"tools/call"}`
	for _, c := range []struct {
		name, in string
		code     int
		id, says string
	}{
		{"nothing", "", CodeParse, "", "the body is empty"},
		{"white space", " \n", CodeParse, "", "the body is empty"},
		{"no JSON", `hello`, CodeParse, "", "invalid character"},
		{"half", `{"jsonrpc":"2.0"`, CodeParse, "", "EOF"},
		{"batch", ` [{"jsonrpc":"2.0","id":1,"method":"m"}]`, CodeInvalidRequest, "", "batches"},
		{"a string", `"x"`, CodeInvalidRequest, "", "is an object"},
		{"BOM", "\ufeff{}", CodeParse, "", "invalid character"},
		{"trailing object", `{"a":1` + rest + `{"id":2}`, CodeParse, "", "8 bytes after"},
		{"trailing bracket", `{"a":1` + rest + `}`, CodeParse, "", "1 bytes after"},
		{"duplicate method", `{"method":"ping"` + rest, CodeParse, "", "duplicate"},
		{"duplicate under an escape", `{"m\u0065thod":"ping"` + rest, CodeParse, "", "duplicate"},
		{"duplicate name in params", `{"params":{"name":"safe","name":"danger"}` + rest, CodeParse, "", "duplicate"},
		{"duplicate params", `{"params":{"name":"safe"},"params":{"name":"danger"}` + rest, CodeParse, "", "duplicate"},
		{"duplicate deep in arguments", `{"params":{"arguments":[{"x":[{"a":1,"a":2}]}]}` + rest, CodeParse, "", "duplicate"},
		{"leading zero", `{"params":{"n":01}` + rest, CodeParse, "", "invalid character"},
		{"trailing comma", `{"params":{"n":1,}` + rest, CodeParse, "", "invalid character"},
		{"comment", `{/**/"params":{}` + rest, CodeParse, "", "invalid character"},
		{"control character", "{\"params\":{\"n\":\"\x01\"}" + rest, CodeParse, "", "invalid character"},
		{"NUL", "{\"params\":{\"n\":\"\x00\"}" + rest, CodeParse, "", "invalid character"},
		{"NaN", `{"params":{"n":NaN}` + rest, CodeParse, "", "invalid character"},
		{"invalid UTF-8", "{\"params\":{\"n\":\"\xff\"}" + rest, CodeParse, "", "UTF-8"},
		{"overlong UTF-8", "{\"params\":{\"n\":\"\xc0\xaf\"}" + rest, CodeParse, "", "UTF-8"},
		{"lone surrogate", `{"params":{"n":"\ud800"}` + rest, CodeParse, "", "surrogate"},
		{"too deep", strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000), CodeParse, "", "depth"},

		{"Method beside method", `{"Method":"ping"` + rest, CodeInvalidRequest, "7", `"Method" could be taken for "method"`},
		{"only METHOD", `{"jsonrpc":"2.0","id":7,"METHOD":"ping"}`, CodeInvalidRequest, "7", `"METHOD" could be taken`},
		{"long s", `{"param` + "\u017f" + `":{}` + rest, CodeInvalidRequest, "7", "could be taken for \"params\""},
		{"ID beside id", `{"ID":8` + rest, CodeInvalidRequest, "7", `"ID" could be taken`},

		{"id null", `{"jsonrpc":"2.0","id":null,"method":"m"}`, CodeInvalidRequest, "", `"id" must be a string or a number`},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"m"}`, CodeInvalidRequest, "", `"id" must be`},
		{"id array", `{"jsonrpc":"2.0","id":[1],"method":"m"}`, CodeInvalidRequest, "", `"id" must be`},
		{"id boolean", `{"jsonrpc":"2.0","id":true,"method":"m"}`, CodeInvalidRequest, "", `"id" must be`},
		{"no jsonrpc", `{"id":7,"method":"m"}`, CodeInvalidRequest, "7", `"jsonrpc" must be "2.0"`},
		{"jsonrpc as a number", `{"jsonrpc":2.0,"id":7,"method":"m"}`, CodeInvalidRequest, "7", `"jsonrpc" must be "2.0"`},
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":7,"method":"m"}`, CodeInvalidRequest, "7", `"jsonrpc" must be "2.0"`},
		{"method a number", `{"jsonrpc":"2.0","id":7,"method":1}`, CodeInvalidRequest, "7", `"method" must be a string`},
		{"method empty", `{"jsonrpc":"2.0","id":7,"method":""}`, CodeInvalidRequest, "7", `"method" must be a string`},
		{"params an array", `{"params":[1]` + rest, CodeInvalidRequest, "7", `"params" must be an object`},
		{"params a string", `{"params":"x"` + rest, CodeInvalidRequest, "7", `"params" must be an object`},
		{"neither request nor response", `{"jsonrpc":"2.0","id":7}`, CodeInvalidRequest, "7", "neither a request"},
		{"only a null error", `{"jsonrpc":"2.0","id":7,"error":null}`, CodeInvalidRequest, "7", "neither a request"},
		{"request and result", `{"result":{}` + rest, CodeInvalidRequest, "7", "only one of"},
		{"request and error", `{"error":{}` + rest, CodeInvalidRequest, "7", "only one of"},
		{"result and error", `{"jsonrpc":"2.0","id":7,"result":{},"error":{}}`, CodeInvalidRequest, "7", "only one of"},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, CodeInvalidRequest, "", `a result needs an "id"`},
	} {
		m, err := Decode([]byte(c.in))
		if err == nil || err.Code != c.code || !strings.Contains(err.Message, c.says) || string(m.ID) != c.id {
			t.Errorf("%s: got id %s, %v", c.name, m.ID, err)
		}
	}
}

func TestParamsObject(t *testing.T) {
	o, err := decode(t, `{"jsonrpc":"2.0","method":"m","params":{"name":"a","arguments":{"Name":1}}}`).ParamsObject()
	if err != nil || string(o.Get("arguments")) != `{"Name":1}` {
		t.Errorf("got %s, %v", o.Bytes(), err)
	}
	if o, err := decode(t, `{"jsonrpc":"2.0","method":"m"}`).ParamsObject(); err != nil || len(o) != 0 {
		t.Errorf("no params: %v, %v", o, err)
	}
	for _, impostor := range []string{"Name", "ARGUMENTS", "argument\u017f", "_Meta", "ta\u017f\u212aId", "inputresponses"} {
		m := decode(t, `{"jsonrpc":"2.0","method":"m","params":{"name":"a","`+impostor+`":{}}}`)
		if _, err := m.ParamsObject(); err == nil || err.Code != CodeInvalidRequest || !strings.Contains(err.Message, "could be taken for") {
			t.Errorf("%s: %v", impostor, err)
		}
	}
}

func decode(t *testing.T, in string) Message {
	t.Helper()
	m, err := Decode([]byte(in))
	if err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	return m
}

func TestMessageKinds(t *testing.T) {
	for in, want := range map[string][3]bool{
		`{"jsonrpc":"2.0","id":1,"method":"m"}`: {true, false, false},
		`{"jsonrpc":"2.0","method":"m"}`:        {false, true, false},
		`{"jsonrpc":"2.0","id":1,"result":{}}`:  {false, false, true},
		`{"jsonrpc":"2.0","error":{}}`:          {false, false, true},
	} {
		m := decode(t, in)
		if got := [3]bool{m.IsRequest(), m.IsNotification(), m.IsResponse()}; got != want {
			t.Errorf("%s: %v", in, got)
		}
	}
}

func TestMessageBytes(t *testing.T) {
	for want, m := range map[string]Message{
		`{"jsonrpc":"2.0","id":1.50,"method":"a\"b","params":{"n" : 1e400}}`:                     {ID: Raw("1.50"), Method: `a"b`, Params: Raw(`{"n" : 1e400}`)},
		`{"jsonrpc":"2.0","id":"x","result":{}}`:                                                 Result(Raw(`"x"`), Raw(`{}`)),
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`:                     Failure(nil, Errorf(CodeParse, "no")),
		`{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"m","data":{"uri":"file:a"}}}`: Failure(Raw("2"), Errorf(CodeInvalidParams, "m").WithData(map[string]string{"uri": "file:a"})),
	} {
		if got := string(m.Bytes()); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

func TestShape(t *testing.T) {
	for raw, want := range map[string][2]int{
		`1`: {0, 0}, `"[{"`: {0, 0}, `{}`: {1, 0}, `{"a":[1,{"b":"\\\"}:"}],"c":[]}`: {3, 3}, `[[],[[]]]`: {3, 0}, `{"a:b" : {"":":"}}`: {2, 2},
		`]]]{"`: {0, 0}, `{{{`: {3, 0}, `::`: {0, 2},
	} {
		if depth, members := Condense(Raw(raw)).Shape(); depth != want[0] || members != want[1] {
			t.Errorf("%s: depth %d, %d members, want %v", raw, depth, members, want)
		}
	}
}
