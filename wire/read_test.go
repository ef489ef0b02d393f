package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadAll(t *testing.T) {
	for _, size := range []int{0, 1, atOnce - 1, atOnce, atOnce + 1, 3*atOnce + 7} {
		body := bytes.Repeat([]byte("x"), size)
		for _, announced := range []int64{-1, 0, int64(size), int64(size) + 100_000, int64(size) / 2} {
			got, err := ReadAll(iotest.HalfReader(bytes.NewReader(body)), announced)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes, %d announced: got %d, %v", size, announced, len(got), err)
			}
		}
	}
	broken := errors.New("broken off")
	for _, size := range []int{10, 2 * atOnce} {
		r := io.MultiReader(strings.NewReader(strings.Repeat("x", size)), iotest.ErrReader(broken))
		if got, err := ReadAll(r, 4*atOnce); !errors.Is(err, broken) || len(got) != size {
			t.Errorf("broken off after %d bytes: got %d, %v", size, len(got), err)
		}
	}
}

func TestReadAllMakesRoomOnce(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 1<<20)
	got, _ := ReadAll(bytes.NewReader(body), int64(len(body)))
	if cap(got) > len(body)+atOnce {
		t.Errorf("%d bytes of room for %d", cap(got), len(body))
	}
	if got, _ = ReadAll(strings.NewReader("short"), 1<<30); cap(got) > 2*atOnce {
		t.Errorf("%d bytes of room for what was only announced", cap(got))
	}
}

func BenchmarkReadAll(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadAll(bytes.NewReader(body), int64(len(body))); err != nil {
			b.Fatal(err)
		}
	}
}
