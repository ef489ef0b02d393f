package mcptest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// echo answers every line with itself, in capitals.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for s := bufio.NewScanner(conn); s.Scan(); {
					_, _ = io.WriteString(conn, strings.ToUpper(s.Text())+"\n")
				}
			}()
		}
	}()
	return l.Addr().String()
}

type line struct {
	net.Conn
	r *bufio.Reader
	t *testing.T
}

func dial(t *testing.T, c *Cutter) line {
	t.Helper()
	conn, err := net.Dial("tcp", c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return line{conn, bufio.NewReader(conn), t}
}

func (l line) say(text string) {
	if _, err := io.WriteString(l, text+"\n"); err != nil {
		l.t.Error(err)
	}
}

// hear wants text within 5 s and then, unless text is whole, the end.
func (l line) hear(text string) {
	l.t.Helper()
	_ = l.SetReadDeadline(time.Now().Add(5 * time.Second))
	got, err := l.r.ReadString('\n')
	if got != text || (err == nil) != strings.HasSuffix(text, "\n") || errors.Is(err, context.DeadlineExceeded) {
		l.t.Errorf("heard %q, %v; want %q", got, err, text)
	}
}

func TestCutter(t *testing.T) {
	Goroutines(t)
	c := NewCutter(t, echo(t))
	a := dial(t, c)
	a.say("one")
	a.hear("ONE\n")

	c.Pause()
	a.say("two")
	_ = a.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if b, err := a.r.ReadByte(); err == nil {
		t.Errorf("heard %q while paused", b)
	}
	c.Heal()
	a.hear("TWO\n")

	c.Delay(100 * time.Millisecond)
	asked := time.Now()
	a.say("late")
	a.hear("LATE\n")
	if took := time.Since(asked); took < 100*time.Millisecond {
		t.Errorf("heard after %v though replies are held back", took)
	}
	c.Heal()

	c.DropAfter(6)
	a.say("abc")
	a.hear("ABC\n")
	a.say("def")
	a.hear("DE")

	c.BeforeReply()
	b := dial(t, c)
	b.say("x")
	b.hear("")

	c.Heal()
	d := dial(t, c)
	d.say("three")
	d.hear("THREE\n")
	c.Cut()
	d.hear("")
}

func TestCutterWithoutTarget(t *testing.T) {
	c := NewCutter(t, "127.0.0.1:1")
	dial(t, c).hear("")
}
