package wire

import (
	"bytes"
	jsonv1 "encoding/json"
	"math/big"
	"net/http"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var corpus = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":9007199254740993}}}`,
	`{"jsonrpc":"2.0","id":"x","result":{"content":[]}}`,
	`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}`,
	`{"jsonrpc":"2.0","id":1.5e3,"m\u0065thod":"m","params":{"name":"safe","name":"danger"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"m","Method":"n","param` + "\u017f" + `":{}}`,
	`{"jsonrpc":"2.0","id":1,"method":"m","params":{"n\u0061me":"a","Name":"b"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"m"} {}`,
	`[{"jsonrpc":"2.0"}]`,
	"{\"a\":\"\xff\",\"b\":\"\\ud800\",\"c\":[1,{\"\":-0.1e+5}]}",
	`{"a":[{"b":"}]\\\""},true,false,null]}`,
}

// FuzzDecode: what is accepted means the same to the two standard parsers, one
// of which folds case and takes the last of two members.
func FuzzDecode(f *testing.F) {
	for _, s := range corpus {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, e := Decode(body)
		if e != nil {
			return
		}
		var v1 struct {
			ID, Params, Result, Error *jsonv1.RawMessage
			Method                    string
		}
		if err := jsonv1.Unmarshal(body, &v1); err != nil {
			t.Fatalf("encoding/json refuses it: %v", err)
		}
		var v2 map[string]jsontext.Value
		if err := jsonv2.Unmarshal(body, &v2); err != nil {
			t.Fatalf("json/v2 refuses it: %v", err)
		}
		var method string
		if v2["method"] != nil {
			if err := jsonv2.Unmarshal(v2["method"], &method); err != nil {
				t.Fatalf("method: %v", err)
			}
		}
		if m.Method != v1.Method || m.Method != method {
			t.Errorf("method %q, encoding/json says %q, json/v2 says %q", m.Method, v1.Method, method)
		}
		same(t, "id", m.ID, v1.ID, v2["id"])
		same(t, "params", m.Params, v1.Params, v2["params"])
		if string(m.Result) != "null" {
			same(t, "result", m.Result, v1.Result, v2["result"])
		}
		same(t, "error", m.Error, v1.Error, v2["error"])
		sameParams(t, m)
		again, e := Decode(m.Bytes())
		if e != nil || !bytes.Equal(again.Bytes(), m.Bytes()) {
			t.Errorf("written and read again: %q, %v", again, e)
		}
	})
}

func same(t *testing.T, name string, ours Raw, v1 *jsonv1.RawMessage, v2 jsontext.Value) {
	t.Helper()
	if v1 == nil {
		v1 = &jsonv1.RawMessage{}
	}
	if string(v2) == "null" {
		v2 = nil
	}
	if !bytes.Equal(ours, *v1) || !bytes.Equal(ours, v2) {
		t.Errorf("%s is %s, encoding/json says %s, json/v2 says %s", name, ours, *v1, v2)
	}
}

// sameParams: the members that decide are what a folding parser takes them for.
func sameParams(t *testing.T, m Message) {
	t.Helper()
	o, e := m.ParamsObject()
	if e != nil || m.Params == nil {
		return
	}
	var v1 struct {
		Name, Arguments, URI, TaskID jsonv1.RawMessage
	}
	if err := jsonv1.Unmarshal(m.Params, &v1); err != nil {
		t.Fatalf("encoding/json refuses params: %v", err)
	}
	for name, v := range map[string]jsonv1.RawMessage{"name": v1.Name, "arguments": v1.Arguments, "uri": v1.URI, "taskId": v1.TaskID} {
		if !bytes.Equal(o.Get(name), v) {
			t.Errorf("params.%s is %s, encoding/json says %s", name, o.Get(name), v)
		}
	}
}

// FuzzObject: the splitter finds what the tokenizer finds, Bytes gives every
// name and value back, and With and Without touch only what they name.
func FuzzObject(f *testing.F) {
	for _, s := range corpus {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _ = splitObject(raw) // must not panic on anything
		_, _ = splitArray(raw)
		o, err := ParseObject(raw)
		if err != nil {
			return
		}
		tokenized(t, raw, o)
		again, err := ParseObject(o.Bytes())
		if err != nil || len(again) != len(o) {
			t.Fatalf("written and read again: %v, %v", again, err)
		}
		changed, err := ParseObject(o.Without("\x00new").With("\x00new", Raw(`[0]`)).Bytes())
		if err != nil || string(changed.Get("\x00new")) != "[0]" {
			t.Fatalf("With: %v, %v", changed, err)
		}
		for i, m := range o {
			if again[i].Name != m.Name || !bytes.Equal(again[i].Value, m.Value) {
				t.Errorf("member %d changed from %s to %s", i, m.Value, again[i].Value)
			}
			if m.Name != "\x00new" && !bytes.Equal(changed.Get(m.Name), m.Value) {
				t.Errorf("With changed %q", m.Name)
			}
			if o.Without(m.Name).Get(m.Name) != nil || len(o.Without(m.Name)) != len(o)-1 {
				t.Errorf("Without left %q", m.Name)
			}
		}
	})
}

// tokenized compares the members with those that the tokenizer reads.
func tokenized(t *testing.T, raw Raw, o Object) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if _, err := dec.ReadToken(); err != nil {
		t.Fatal(err)
	}
	for _, m := range o {
		name, err := dec.ReadToken()
		if err != nil || name.String() != m.Name {
			t.Fatalf("name %q, the tokenizer says %q, %v", m.Name, name, err)
		}
		value, err := dec.ReadValue()
		if err != nil || !bytes.Equal(value, m.Value) {
			t.Fatalf("value %s, the tokenizer says %s, %v", m.Value, value, err)
		}
	}
	if end, err := dec.ReadToken(); err != nil || end.Kind() != '}' {
		t.Fatalf("the tokenizer goes on with %v, %v", end, err)
	}
}

func FuzzHeader(f *testing.F) {
	for _, s := range []string{"a", "", " a ", "世界", "=?base64?YQ==?=", "=?base64?=", "a\r\nb: c", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		written := EncodeHeader(s)
		if strings.ContainsFunc(written, func(r rune) bool { return r < 0x20 && r != '\t' || r > 0x7e }) {
			t.Errorf("%q became %q, which is not fit for a header", s, written)
		}
		if got, err := DecodeHeader(written); err != nil || got != s {
			t.Errorf("%q became %q became %q, %v", s, written, got, err)
		}
		if got, err := DecodeHeader(s); err == nil && got != s && EncodeHeader(got) != trimOWS(s) && !strings.HasPrefix(trimOWS(s), sentinelStart) {
			t.Errorf("%q was read as %q", s, got)
		}
	})
}

// FuzzParamNumbers: numbers compare as the rational numbers they are.
func FuzzParamNumbers(f *testing.F) {
	for _, s := range [][2]string{{"42", "42.0"}, {"4.2e1", "42"}, {"-0", "0"}, {"1e400", "1E+400"}, {"9007199254740993", "9007199254740992"}, {"0.10", "1e-1"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		got := equalNumbers(a, b)
		if len(a) > 20 || len(b) > 20 || exponentTooLarge(a) || exponentTooLarge(b) {
			return // the rational numbers below would take forever
		}
		x, okA := new(big.Rat).SetString(a)
		y, okB := new(big.Rat).SetString(b)
		valid := jsontext.Value(a).IsValid() && jsontext.Value(b).IsValid()
		if want := valid && okA && okB && x.Cmp(y) == 0; got != want {
			t.Errorf("%q and %q: %v", a, b, got)
		}
	})
}

func exponentTooLarge(s string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	return len(exponent) > 4
}

// FuzzModernResult: what was there is still there, but for the members that are
// named in its comment.
func FuzzModernResult(f *testing.F) {
	f.Add("tools/call", []byte(`{"content":null,"structuredContent":{"n":1.0},"_meta":{"io.modelcontextprotocol/related-task":{}}}`))
	f.Add("tools/list", []byte(`{"tools":[{"name":"a","execution":{}},{}],"nextCursor":""}`))
	f.Add("resources/read", []byte(`{"resultType":"input_required","ttlMs":null}`))
	f.Fuzz(func(t *testing.T, method string, raw []byte) {
		in, err := ParseObject(raw)
		if err != nil {
			return
		}
		result, err := ModernResult(method, raw, Raw(serverInfo))
		if err != nil {
			return
		}
		out, err := ParseObject(result)
		if err != nil {
			t.Fatalf("the result is no JSON: %v", err)
		}
		for _, m := range in {
			switch m.Name {
			case "resultType", "content", "ttlMs", "cacheScope", "_meta", "tools":
				continue // may be added to, see the table
			}
			if !bytes.Equal(out.Get(m.Name), m.Value) {
				t.Errorf("%q changed from %s to %s", m.Name, m.Value, out.Get(m.Name))
			}
		}
		twice, err := ModernResult(method, result, Raw(serverInfo))
		if err != nil || !bytes.Equal(twice, result) {
			t.Errorf("not the same when done twice: %s and %s, %v", result, twice, err)
		}
	})
}

// FuzzReadEvents: whatever comes, no event is over the limit; and what was
// written is read.
func FuzzReadEvents(f *testing.F) {
	f.Add([]byte("id: a\ndata: \n\nevent: message\r\ndata: {\r\ndata: }\r\n\r\n: c\n\n"), []byte(`{"a":1}`))
	f.Fuzz(func(t *testing.T, stream, raw []byte) {
		const limit = 64
		err := ReadEvents(bytes.NewReader(stream), limit, func(e Event) error {
			if len(e.Data) > limit {
				t.Errorf("an event of %d bytes", len(e.Data))
			}
			return nil
		})
		if err == nil && validate(raw) == nil {
			writtenIsRead(t, raw)
		}
	})
}

func writtenIsRead(t *testing.T, raw Raw) {
	t.Helper()
	var got Raw
	event := AppendEvent(nil, raw) // each line break in raw makes it larger
	err := ReadEvents(bytes.NewReader(event), len(event)+100, func(e Event) error { got = e.Data; return nil })
	if err != nil || !bytes.Equal(compact(t, got), compact(t, raw)) {
		t.Errorf("%q was read as %q, %v", raw, got, err)
	}
}

func compact(t *testing.T, raw Raw) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jsonv1.Compact(&b, raw); err != nil {
		t.Errorf("%q: %v", raw, err)
	}
	return b.Bytes()
}

// FuzzCheckHeaders: agreement is symmetric between how a value is written in
// the body and in the header, and nothing panics.
func FuzzCheckHeaders(f *testing.F) {
	f.Add("tools/call", "世界", "世界")
	f.Add("tasks/get", "a", "b")
	f.Fuzz(func(t *testing.T, method, inHeader, inBody string) {
		h := http.Header{HeaderVersion: {Version}, HeaderMethod: {method}, HeaderName: {EncodeHeader(inHeader)}}
		m := Message{ID: Raw("1"), Method: method}
		member, _ := nameMember(method)
		err := CheckHeaders(h, m, Object{}.With(member, Quote(inBody)), Version)
		agree := member == "" || inHeader == strings.ToValidUTF8(inBody, "\ufffd")
		if method == trimOWS(method) && agree != (err == nil) {
			t.Errorf("%s: header %q, body %q: %v", method, inHeader, inBody, err)
		}
	})
}
