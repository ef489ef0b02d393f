package demo

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// screen writes the story: in a terminal with colours and a bar that moves,
// elsewhere as plain lines.
type screen struct {
	w        io.Writer
	terminal bool
	broken   func(error) // is told when nobody reads any more
	lastBar  string      // the one under the cursor; "" for none
}

func newScreen(w io.Writer, broken func(error)) *screen {
	return &screen{w: w, terminal: isTerminal(w), broken: broken}
}

// isTerminal also respects who wants no colours (no-color.org).
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// style is an SGR parameter of ECMA-48.
type style string

const (
	bold  style = "1"
	dim   style = "2"
	red   style = "31"
	green style = "32"
	blue  style = "36"
)

func (s *screen) paint(st style, text string) string {
	if !s.terminal {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

func (s *screen) write(text string) {
	if _, err := io.WriteString(s.w, text); err != nil {
		s.broken(err)
	}
}

// line writes a line; a bar before it stays as it is.
func (s *screen) line(text string) {
	if s.lastBar != "" && s.terminal {
		s.write("\n")
	}
	s.lastBar = ""
	s.write(text + "\n")
}

func (s *screen) title(text string) { s.line(s.paint(bold, text)) }

// step begins a part of the story.
func (s *screen) step(number int, text string) {
	s.line("")
	s.line(s.paint(bold, fmt.Sprintf("%d  %s", number, text)))
}

// sent shows a request, got what came back.
func (s *screen) sent(method, about string) {
	s.line("   " + s.paint(blue, "→") + " POST " + s.paint(blue, method) + " " + about)
}

func (s *screen) got(text string) { s.line("   " + s.paint(green, "←") + " " + text) }

func (s *screen) failed(text string) { s.line("   " + s.paint(red, "←") + " " + text) }

// note is what the reader should know of what is shown.
func (s *screen) note(text string) { s.line("     " + s.paint(dim, text)) }

// fact is a name with its value.
func (s *screen) fact(name, value string) { s.line(fmt.Sprintf("   %-15s %s", name, value)) }

// quote shows a text of several lines as it came.
func (s *screen) quote(text string) {
	for l := range strings.Lines(text) {
		s.line("     " + s.paint(dim, "│") + " " + strings.TrimRight(l, "\n"))
	}
}

const barWidth = 24

// bar shows how far something is: done is between 0 and 1. In a terminal it
// takes the place of the bar before it; elsewhere it is a line, and none when
// nothing has changed.
func (s *screen) bar(done float64, text string) {
	filled := int(barWidth * done)
	bar := fmt.Sprintf("     %s%s %3.0f %%  %s", s.paint(green, strings.Repeat("█", filled)),
		strings.Repeat("░", barWidth-filled), 100*done, text)
	switch {
	case bar == s.lastBar:
	case s.terminal:
		s.write("\r\x1b[K" + bar)
	default:
		s.write(bar + "\n")
	}
	s.lastBar = bar
}
