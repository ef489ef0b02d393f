package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// However often something is tried, and whatever a try waits for, it ends in time.
func TestAnOperationEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start, tries := &Store{timeout: 5 * time.Second}, time.Now(), 0
		err := s.repeat(t.Context(), func(ctx context.Context) error {
			tries++
			end, ok := ctx.Deadline()
			if !ok || end.Sub(start) != s.timeout {
				t.Errorf("try %d ends after %v", tries, end.Sub(start))
			}
			if tries == 1 {
				return net.ErrClosed // as the library has it, whose waits are half of the time each
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if err == nil || !strings.Contains(err.Error(), "no answer within 5s") || tries != 2 || time.Since(start) != s.timeout {
			t.Errorf("after %v and %d tries: %v", time.Since(start), tries, err)
		}
	})
}

// A caller who gives up is not kept until then.
func TestAnOperationEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := &Store{timeout: 5 * time.Second}, time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.repeat(ctx, func(context.Context) error { return net.ErrClosed })
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// What the library waits for in one try, one after the other, is no longer than an
// operation: for a connection that others have, and for a new one.
func TestWaitsOfTheLibrary(t *testing.T) {
	var o redis.UniversalOptions
	ours(&o, 4*time.Second)
	if o.PoolTimeout == 0 || o.DialTimeout == 0 || o.PoolTimeout+o.DialTimeout > 4*time.Second { // 0 is the library's own
		t.Errorf("%v for a connection and %v to dial", o.PoolTimeout, o.DialTimeout)
	}
}

// A reply that no script of ours gives is an error of the write that it is for.
func TestStrangeReplies(t *testing.T) {
	for _, replies := range []any{"none", []any{}, []any{int64(1)}, []any{nil}} {
		cmd, w := redis.NewCmd(t.Context()), &write{}
		cmd.SetVal(replies)
		call{cmd, []*write{w}}.land(nil)
		if w.err == nil {
			t.Errorf("%v is taken for %v", replies, w.reply)
		}
	}
}
