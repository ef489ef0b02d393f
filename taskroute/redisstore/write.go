package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// write is one of a document: what must be there before it, and a call of the script
// that writes it. Those of one script go together (each.lua).
type write struct {
	entry  entry
	script *redis.Script
	keys   []string
	args   []any
	copied *redis.IntCmd // waits for copies; nil: there need be none

	reply []any // of the script
	err   error
}

// put sends w, of a document of that size, until it is known what became of it. When
// it is small it may go with others; then nothing in it may change, also when ctx ends
// first.
func (s *Store) put(ctx context.Context, size int64, w write) (write, error) {
	var sent *write
	err := s.repeat(ctx, func(ctx context.Context) error {
		again := w
		sent = &again
		if s.cluster || w.copied != nil || size > maxShared { // it has servers of its own, or others would wait long
			s.fly(ctx, []*write{sent})
			return sent.err
		}
		return s.writers.send(ctx, sent)
	})
	if err != nil {
		return write{}, err
	}
	return *sent, nil
}

// fly sends writes, and says in each what became of it: in one round trip where one
// server has all keys, since it runs commands in order; in two where it may not.
func (s *Store) fly(ctx context.Context, writes []*write) {
	p := s.client.Pipeline()
	s.enter(ctx, p, writes)
	before := len(p.Cmds())
	if s.cluster {
		if err := exec(ctx, p); err != nil {
			fail(writes, err)
			return
		}
		before = 0
	}
	calls := calls(ctx, p, writes)
	if len(writes) == 1 && writes[0].copied != nil {
		_ = p.Process(ctx, writes[0].copied) // it is sent with the others
	}
	cmds, err := p.Exec(ctx)
	for _, c := range calls {
		c.land(err)
	}
	if err := outcome(cmds[:before], err); err != nil {
		fail(writes, err)
	}
}

func fail(writes []*write, err error) {
	for _, w := range writes {
		w.err = err
	}
}

// call is one of a script, for several writes.
type call struct {
	cmd *redis.Cmd
	of  []*write
}

// calls adds those of writes to p, one of each script.
func calls(ctx context.Context, p redis.Pipeliner, writes []*write) (all []call) {
	for _, script := range []*redis.Script{createScript, replaceScript} {
		var c call
		var keys []string
		var args []any
		for _, w := range writes {
			if w.script == script {
				keys = append(keys, w.keys...)
				args = append(append(args, len(w.keys), len(w.args)), w.args...)
				c.of = append(c.of, w)
			}
		}
		if c.of != nil {
			c.cmd = script.EvalSha(ctx, p, keys, args...)
			all = append(all, c)
		}
	}
	return all
}

// land gives each write its reply. The pipeline has ended with err.
func (c call) land(err error) {
	if err := outcome([]redis.Cmder{c.cmd}, err); err != nil {
		fail(c.of, err)
		return
	}
	replies, err := c.cmd.Slice()
	if err == nil && len(replies) != len(c.of) {
		err = fmt.Errorf("a script has %d replies for %d writes", len(replies), len(c.of))
	}
	if err != nil {
		fail(c.of, err)
		return
	}
	for i, reply := range replies {
		switch reply := reply.(type) {
		case error:
			c.of[i].err = reply
		case []any:
			c.of[i].reply = reply
		default:
			c.of[i].err = fmt.Errorf("a script returned %v", reply)
		}
	}
}
