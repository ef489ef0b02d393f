package demo

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// drawBars shows a bar three times, of which two are the same.
func drawBars(terminal bool) string {
	var b strings.Builder
	s := &screen{w: &b, terminal: terminal}
	s.bar(0, "working")
	s.bar(0.5, "working")
	s.bar(0.5, "working")
	s.line("done")
	return b.String()
}

func TestBarElsewhereIsALine(t *testing.T) {
	want := "     ░░░░░░░░░░░░░░░░░░░░░░░░   0 %  working\n" +
		"     ████████████░░░░░░░░░░░░  50 %  working\n" +
		"done\n"
	if got := drawBars(false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestBarInATerminalMoves(t *testing.T) {
	got := drawBars(true)
	if n := strings.Count(got, "\r\x1b[K"); n != 2 {
		t.Errorf("drawn %d times, want 2: %q", n, got)
	}
	if lines := strings.Split(got, "\n"); len(lines) != 3 || lines[1] != "done" {
		t.Errorf("got %q, want the bars in one line and the text in the next", got)
	}
}

// closedPipe is an output whose reader has gone.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestBrokenOutputIsTold(t *testing.T) {
	var got error
	newScreen(closedPipe{}, func(err error) { got = err }).line("text")
	if !errors.Is(got, io.ErrClosedPipe) {
		t.Errorf("got %v, want the error of the output", got)
	}
}
