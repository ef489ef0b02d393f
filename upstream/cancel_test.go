package upstream

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"taskgate/internal/mcptest"
)

// A server over HTTP that is not to be told sees its stream close, and where that is
// wanted its session end.
func TestWhatOfACancelReachesALegacyServer(t *testing.T) {
	for _, c := range []struct {
		cancel        Cancel
		told, deleted int
	}{{CancelNotify, 1, 0}, {CancelClose, 0, 1}, {CancelNone, 0, 0}} {
		t.Run(string(c.cancel), func(t *testing.T) {
			started, closed := make(chan struct{}), make(chan struct{})
			s := serve(t, answering(func(w http.ResponseWriter, r received) {
				if string(r.ID) == "6" {
					fast(w, r)
					return
				}
				stream(w, ": hello\n\n")
				close(started)
				waitForCancel(r)
				close(closed)
			}))
			h := connectLegacy(t, s, Options{Cancel: c.cancel})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-started
				cancel()
			}()
			if _, err := h.Call(ctx, toolCall(5, "x", `{}`), &recorder{}); !errors.Is(err, context.Canceled) {
				t.Errorf("error: %v", err)
			}
			<-closed
			deleted := func() int {
				return len(s.all(func(r received) bool { return r.http == http.MethodDelete }))
			}
			eventually(t, "the session ends, if it does", func() bool { return deleted() == c.deleted })
			if _, err := h.Call(t.Context(), toolCall(6, "quick", `{}`), &recorder{}); err != nil {
				t.Errorf("the next call: %v", err)
			}
			check(t, "sessions opened", len(s.all(method("initialize"))), 1+c.deleted)
			check(t, "sessions ended", deleted(), c.deleted)
			check(t, "told", len(s.all(method("notifications/cancelled"))), c.told)
		})
	}
}

// A process that is ended for a cancel ends when no other call is in it, and takes no
// new one until then. Other processes, and other calls, are none the worse for it.
func TestWhatOfACancelReachesAProcess(t *testing.T) {
	for _, era := range []Era{Legacy, Modern} {
		for _, kind := range []Cancel{CancelClose, CancelNone} {
			t.Run(string(era)+" "+string(kind), func(t *testing.T) {
				log, lines := observer.New(zap.InfoLevel)
				h := start(t, mcptest.OnStdio(t), Options{Era: era, Cancel: kind, Log: zap.New(log)})
				pid := say(t, h, by("a", 1, "pid", `{}`))
				first, second := underWay(t, h, by("a", 2, "wait", `{}`)), underWay(t, h, by("a", 3, "wait", `{}`))
				first.cancels()
				next := say(t, h, by("a", 4, "pid", `{}`))
				check(t, "the next call is in another process", next != pid, kind == CancelClose)
				select {
				case <-second.done:
					t.Error("the other call has ended too")
				default:
				}
				if hasEnded(pidOf(t, pid)) {
					t.Error("the process has ended under the other call")
				}
				check(t, "told", lines.FilterField(zap.String("stderr", "wait was cancelled")).Len(), 0)
				second.cancels()
				if kind == CancelClose {
					eventually(t, "the process ends", func() bool { return hasEnded(pidOf(t, pid)) })
					check(t, "the other process stays", say(t, h, by("a", 5, "pid", `{}`)), next)
				}
			})
		}
	}
}

func TestUnknownCancel(t *testing.T) {
	if _, err := NewHTTP(Options{URL: "http://127.0.0.1:1/mcp", Cancel: "kill"}); err == nil {
		t.Error("taken")
	}
}
