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
			got, err := new(Bodies).ReadAll(iotest.HalfReader(bytes.NewReader(body)), announced)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes, %d announced: got %d, %v", size, announced, len(got), err)
			}
		}
	}
	broken := errors.New("broken off")
	for _, size := range []int{10, 2 * atOnce} {
		r := io.MultiReader(strings.NewReader(strings.Repeat("x", size)), iotest.ErrReader(broken))
		if got, err := new(Bodies).ReadAll(r, 4*atOnce); !errors.Is(err, broken) || len(got) != size {
			t.Errorf("broken off after %d bytes: got %d, %v", size, len(got), err)
		}
	}
}

func TestReadAllMakesRoomOnce(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 1<<20)
	got, _ := new(Bodies).ReadAll(bytes.NewReader(body), int64(len(body)))
	if cap(got) > len(body)+atOnce {
		t.Errorf("%d bytes of room for %d", cap(got), len(body))
	}
	if got, _ = new(Bodies).ReadAll(strings.NewReader("short"), 1<<30); cap(got) > 2*atOnce {
		t.Errorf("%d bytes of room for what was only announced", cap(got))
	}
}

// The room that bodies of unknown length come into is used again, but not what was
// made of them.
func TestBodiesShareNothing(t *testing.T) {
	var bodies Bodies
	texts := []string{strings.Repeat("a", 3*atOnce), strings.Repeat("b", 2*atOnce+5), "c", strings.Repeat("d", unannounced)}
	var got [][]byte
	for _, text := range texts {
		body, err := bodies.ReadAll(strings.NewReader(text), -1)
		if err != nil || cap(body) > len(text)+len(text)/4+unannounced {
			t.Errorf("%d bytes: room for %d, %v", len(text), cap(body), err)
		}
		got = append(got, body)
	}
	for i, text := range texts {
		if string(got[i]) != text {
			t.Errorf("body %d has changed", i)
		}
	}
}

func BenchmarkReadAll(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1<<20)
	for name, announced := range map[string]int64{"announced": int64(len(body)), "unannounced": -1} {
		b.Run(name, func(b *testing.B) {
			var bodies Bodies
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bodies.ReadAll(bytes.NewReader(body), announced); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
