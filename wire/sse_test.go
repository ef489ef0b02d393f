package wire

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func readAll(r io.Reader, limit int) (got []string, err error) {
	err = ReadEvents(r, limit, func(e Event) error {
		got = append(got, e.ID+"|"+string(e.Data))
		return nil
	})
	return got, err
}

func TestReadEvents(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"one", "event: message\ndata: {}\n\n", []string{"|{}"}},
		{"no event name", "data: {}\n\n", []string{"|{}"}},
		{"no space after the colon", "data:{}\n\n", []string{"|{}"}},
		{"CRLF", "event: message\r\ndata: {}\r\n\r\ndata: [1]\r\n\r\n", []string{"|{}", "|[1]"}},
		{"CR", "data: {}\r\rdata: [1]\r\r", []string{"|{}", "|[1]"}},
		{"comments", ": keep-alive\n\n:\r\ndata: {}\n: in between\n\n: ok\n\n", []string{"|{}"}},
		{"priming event counts for the id", "id: a\ndata: \n\nevent: message\nid: b\ndata: {}\n\ndata: []\n\n", []string{"b|{}", "b|[]"}},
		{"id of a priming event alone", "id: a\ndata:\n\ndata: {}\n\n", []string{"a|{}"}},
		{"other events", "event: close\nretry: 10\ndata: \n\nevent: ping\ndata: {}\n\nevent: message\ndata: 1\n\n", []string{"|1"}},
		{"unknown fields", "data: {}\nfoo: bar\nbaz\n\n", []string{"|{}"}},
		{"several data lines", "data: {\ndata: \"a\": 1\ndata: }\n\n", []string{"|{\n\"a\": 1\n}"}},
		{"no blank line at the end", "data: {}", []string{"|{}"}},
		{"one line break at the end", "data: 1\n\ndata: {}\r\n", []string{"|1", "|{}"}},
		{"byte order mark", "\ufeffdata: {}\n\n", []string{"|{}"}},
	} {
		if got, err := readAll(strings.NewReader(c.in), 1<<10); err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %q, %v", c.name, got, err)
		}
		if got, err := readAll(iotest.OneByteReader(strings.NewReader(c.in)), 1<<10); err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s, byte by byte: got %q, %v", c.name, got, err)
		}
	}
}

func TestReadEventsLimit(t *testing.T) {
	event := func(size int) string { return "data: " + strings.Repeat("x", size) + "\n\n" }
	got, err := readAll(strings.NewReader(event(500)+event(500)+event(500)), 1000)
	if err != nil || len(got) != 3 {
		t.Errorf("many events under the limit: %d, %v", len(got), err)
	}
	if got, err := readAll(strings.NewReader(event(1)+event(5000)), 1000); !errors.Is(err, ErrEventTooLarge) || len(got) != 1 {
		t.Errorf("an event over the limit: %q, %v", got, err)
	}
	if got, err := readAll(io.MultiReader(strings.NewReader("data: "), endless('x')), 100_000); err == nil || len(got) > 0 {
		t.Errorf("an event without end: %q, %v", got, err)
	}
}

// TestEventReaderGathers: the parser must not be shown an event piece by piece.
func TestEventReaderGathers(t *testing.T) {
	stream := "data: " + strings.Repeat("x", 300) + "\n\ndata: y\n\n"
	r := &eventReader{r: iotest.OneByteReader(strings.NewReader(stream)), lineStart: true}
	var sizes []int
	for p := make([]byte, 100); ; {
		n, err := r.Read(p)
		if err == io.EOF {
			break
		}
		sizes = append(sizes, n)
	}
	if got, want := fmt.Sprint(sizes), "[100 100 100 8 9]"; got != want {
		t.Errorf("sizes: got %s, want %s", got, want)
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestReadEventsErrors(t *testing.T) {
	cut := errors.New("connection reset")
	got, err := readAll(io.MultiReader(strings.NewReader("data: 1\n\ndata: 2"), iotest.ErrReader(cut)), 100)
	if !errors.Is(err, cut) || fmt.Sprint(got) != "[|1]" {
		t.Errorf("a broken stream: %q, %v", got, err)
	}
	calls := 0
	for want, f := range map[error]func(Event) error{
		nil: func(Event) error { calls++; return fmt.Errorf("enough: %w", ErrStop) },
		cut: func(Event) error { calls++; return cut },
	} {
		if err := ReadEvents(strings.NewReader("data: 1\n\ndata: 2\n\n"), 100, f); err != want {
			t.Errorf("want %v, got %v", want, err)
		}
	}
	if calls != 2 {
		t.Errorf("went on after the end: %d calls", calls)
	}
}

func TestAppendEvent(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`:                      "event: message\ndata: {\"a\":1}\n\n",
		"{\n\"a\":\r\n1,\r\r\"b\":2 }": "event: message\ndata: {\ndata: \"a\":\ndata: 1,\ndata: \"b\":2 }\n\n",
	} {
		if got := string(AppendEvent(nil, []byte(in))); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
	if got := string(AppendEvent([]byte("x"), []byte("1"))); got != "xevent: message\ndata: 1\n\n" {
		t.Errorf("not appended: %q", got)
	}
}

func TestWrittenEventsAreRead(t *testing.T) {
	out := append([]byte(nil), KeepAlive...)
	out = AppendEvent(out, []byte("{\"a\" :\n 1}"))
	out = append(out, KeepAlive...)
	out = AppendEvent(out, []byte(`[2]`))
	if got, err := readAll(strings.NewReader(string(out)), 100); err != nil || fmt.Sprintf("%q", got) != `["|{\"a\" :\n 1}" "|[2]"]` {
		t.Errorf("got %q, %v", got, err)
	}
}
