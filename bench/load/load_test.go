package load

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	const done = `{"requests":100,"micros":2000000,"p50":120.500000,"p99":900.000000,"connect":0,"read":0,"write":0,"timeout":0,"status":`
	s, err := parse([]byte("Running 2s test\nRequests/sec: 50\n" + done + "0}\n"))
	want := Sample{Count: 100, Took: 2 * time.Second, P50: 120500 * time.Nanosecond, P99: 900 * time.Microsecond}
	if err != nil || s != want {
		t.Errorf("got %+v, %v; want %+v", s, err, want)
	}
	for _, bad := range []string{done + "3}", "no such file"} {
		if _, err := parse([]byte("text\n" + bad + "\n")); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}

func TestFiguresAreMediansOverRounds(t *testing.T) {
	count := func(s Sample) float64 { return float64(s.Count) }
	s := Samples{"a": {{Count: 2}, {Count: 30}, {Count: 4}}, "b": {{Count: 1}, {Count: 10}, {Count: 4}}}
	if got := s.Median("a", count); got != 4 {
		t.Errorf("median: got %v", got)
	}
	if got := s.Ratio("a", "b", count); got != 2 {
		t.Errorf("ratio: got %v", got)
	}
	if got := s.Above("a", "b", count); got != 1 {
		t.Errorf("above: got %v", got)
	}
}

func TestInterleaveTakesTurns(t *testing.T) {
	var order strings.Builder
	turn := func(name string) Case {
		return Case{name, func(context.Context, time.Duration) (Sample, error) {
			order.WriteString(name)
			return Sample{Count: 1}, nil
		}}
	}
	s, err := Interleave(t.Context(), []Case{turn("a"), turn("b")}, 2, time.Second)
	if err != nil || order.String() != "ababab" || len(s["a"]) != 2 {
		t.Errorf("order %s, samples %v, error %v", order.String(), s, err)
	}
	idle := Case{"idle", func(context.Context, time.Duration) (Sample, error) { return Sample{}, nil }}
	if _, err := Interleave(t.Context(), []Case{idle}, 1, time.Second); err == nil {
		t.Error("a case that did nothing is no error")
	}
}

func TestLoopEndsWithAnError(t *testing.T) {
	broken := errors.New("broken")
	if _, err := Loop(t.Context(), 4, time.Hour, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	s, err := Loop(t.Context(), 2, time.Millisecond, func(context.Context) error { return nil })
	if err != nil || s.Count == 0 || s.P50 > s.P99 {
		t.Errorf("got %+v, %v", s, err)
	}
}
