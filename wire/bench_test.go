package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// body is a tools/call of about size bytes: text, numbers and nesting.
func body(size int) []byte {
	const head = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tool","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},"arguments":{"rows":[`
	const row = `{"id":1234567,"name":"some text, with \"quotes\" and ünïcode","tags":["a","b"],"ratio":0.25,"ok":true}`
	rows := max((size-len(head))/len(row), 0)
	return []byte(head + strings.TrimSuffix(strings.Repeat(row+",", rows), ",") + `]}}}`)
}

func eachSize(b *testing.B, f func(b *testing.B, body []byte)) {
	for _, size := range []int{300, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			in := body(size)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			f(b, in)
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	eachSize(b, func(b *testing.B, in []byte) {
		for b.Loop() {
			if _, err := Decode(in); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRequest is all that the edge reads of a modern request.
func BenchmarkRequest(b *testing.B) {
	eachSize(b, func(b *testing.B, in []byte) {
		for b.Loop() {
			m, err := Decode(in)
			if err != nil {
				b.Fatal(err)
			}
			params, err := m.ParamsObject()
			if err != nil {
				b.Fatal(err)
			}
			if meta, err := ParseMeta(params); err != nil || !meta.Capabilities.DeclaresTasks() {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkLongText is that of a request with 1 MB of text, and what is asked before.
func BenchmarkLongText(b *testing.B) {
	in := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":{"text":"` + strings.Repeat("much too much   ", 64<<10) + `"}}}`)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		text := Condense(in)
		if depth, members := text.Shape(); depth != 3 || members != 6 {
			b.Fatal(depth, members)
		}
		m, err := text.Decode()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.ParamsObject(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkForward takes a decoded request and writes it out under another id
// with other _meta.
func BenchmarkForward(b *testing.B) {
	eachSize(b, func(b *testing.B, in []byte) {
		m, err := Decode(in)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			params, err := m.ParamsObject()
			if err != nil {
				b.Fatal(err)
			}
			out := Message{ID: Raw("1"), Method: m.Method, Params: params.With("_meta", Raw(`{}`)).Bytes()}
			if len(out.Bytes()) == 0 {
				b.Fatal("nothing")
			}
		}
	})
}

func BenchmarkModernResult(b *testing.B) {
	eachSize(b, func(b *testing.B, in []byte) {
		for b.Loop() {
			if _, err := ModernResult("tools/call", in, Raw(serverInfo)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkReadEvents(b *testing.B) {
	eachSize(b, func(b *testing.B, in []byte) {
		stream := AppendEvent(nil, in)
		for b.Loop() {
			n := 0
			err := ReadEvents(bytes.NewReader(stream), 2<<20, func(e Event) error { n += len(e.Data); return nil })
			if err != nil || n != len(in) {
				b.Fatal(n, err)
			}
		}
	})
}

// BenchmarkManyNames is the costliest thing to check for duplicates.
func BenchmarkManyNames(b *testing.B) {
	var in bytes.Buffer
	in.WriteString(`{"jsonrpc":"2.0","method":"m","params":{"":0`)
	for i := range 300_000 {
		fmt.Fprintf(&in, `,"%x":%d`, i, i%10)
	}
	in.WriteString(`}}`)
	b.SetBytes(int64(in.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(in.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
