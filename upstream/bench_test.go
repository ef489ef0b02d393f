package upstream

import (
	"net"
	"strconv"
	"testing"

	"taskgate/wire"
)

// BenchmarkCall is a quick call of a modern server that costs next to nothing itself.
func BenchmarkCall(b *testing.B) {
	const body = `{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete","content":[{"type":"text","text":"quick"}],"isError":false}}`
	at := answerAll(b, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+
		"\r\nDate: Mon, 30 Nov 2026 08:00:00 GMT\r\n\r\n"+body)
	h, err := NewHTTP(Options{URL: "http://" + at, Name: "test", Era: Modern})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = h.Close(b.Context()) })
	call := toolCall(5, "echo", `{"text":"the quick brown fox"}`)
	call.Params = call.Params.With("_meta", wire.Raw(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Call(b.Context(), call, &recorder{}); err != nil {
			b.Fatal(err)
		}
	}
}

// answerAll is a server that takes all that comes at once for a request, and gives
// each the same answer.
func answerAll(b *testing.B, answer string) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for request, all := make([]byte, 8<<10), []byte(answer); err == nil; {
			if _, err = c.Read(request); err == nil {
				_, err = c.Write(all)
			}
		}
	}()
	return l.Addr().String()
}
