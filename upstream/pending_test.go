package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
)

// Wait ends with the answer, and with the call.
func TestWaitForAnAnswer(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		started, answer := make(chan struct{}), make(chan struct{})
		s := serve(t, answering(func(w http.ResponseWriter, r received) {
			close(started)
			select {
			case <-answer:
				fast(w, r)
			case <-r.gone:
			}
		}))
		h := connectModern(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		p := h.Send(ctx, toolCall(5, "x", `{}`), &recorder{})
		waited := make(chan struct{})
		go func() {
			p.Wait()
			close(waited)
		}()
		<-started
		select {
		case <-waited:
			t.Error("it waited for nothing")
		default:
		}
		if cancelled {
			cancel()
		} else {
			close(answer)
		}
		<-waited
		if _, err := p.Outcome(); errors.Is(err, context.Canceled) != cancelled || !cancelled && err != nil {
			t.Errorf("cancelled: %v, error: %v", cancelled, err)
		}
		cancel()
	}
}

// Thousands of calls may wait: the goroutine of one must not keep the stack that
// sending it took.
func TestWhatWaitsHasASmallStack(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var conns atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			conns.Add(1)
		}
	}()
	h := connect(t, Options{URL: "http://" + l.Addr().String(), Era: Modern})
	before := stacks()
	const calls = 200
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for i := range calls {
		go func() {
			p := h.Send(ctx, toolCall(uint64(i+1), "x", `{}`), &recorder{})
			p.Wait()
			_, err := p.Outcome()
			ended <- err
		}()
	}
	eventually(t, "all wait, with less than the 16 KB that sending takes", func() bool { // 4 KB; under the race detector 8
		runtime.GC()
		return conns.Load() == calls && stacks()-before < calls*12<<10
	})
	cancel()
	for range calls {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("error: %v", err)
		}
	}
}

// stacks is what all goroutines have, in bytes.
func stacks() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.StackInuse)
}
