package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"taskgate/taskroute"
)

// hold writes the entry that makes the document, at the given revision, an
// orphan once its holder is dead. The holder gets its place among the leases too, and
// gets it last, since one that holds nothing may lose it: it would keep its documents
// for ever.
func (s *Store) hold(ctx context.Context, p redis.Pipeliner, d taskroute.Doc, x index, revision uint64) {
	if !x.isHeld() {
		return
	}
	p.ZAddGT(ctx, s.keys.held(x.holder), redis.Z{Score: float64(rank(d.ExpiresAt, revision)), Member: d.ID})
	if x.holder != "" {
		p.ZAddNX(ctx, s.keys.leases(), redis.Z{Score: -float64(x.written), Member: x.holder})
	}
}

// letGo drops the entry that a write over revision prev has made stale; written is
// what the script said of it. It does not matter when it fails: who finds the entry
// will see that it is.
func (s *Store) letGo(ctx context.Context, d taskroute.Doc, written []any, prev uint64) {
	if holder, ok := written[1].(string); ok {
		s.unhold(ctx, holder, []any{d.ID, rank(d.ExpiresAt, prev)})
	}
}

const (
	// clockSlack is how far the clock of the server may jump, or differ from that
	// of the server before it, without the entry of an open task being dropped early.
	clockSlack = time.Hour
	// dropStep bounds the expired entries that one heartbeat drops.
	dropStep = 1000
)

// toldIdle is how long a holder that gives no sign of life is still to be told:
// longer than any lease.
const toldIdle = time.Hour

// tell has the holder hear of the document by its heartbeats. Like every entry it
// is written before the document: so a change is never missing.
func (s *Store) tell(ctx context.Context, p redis.Pipeliner, d taskroute.Doc) {
	if d.Tell != "" {
		tellScript.EvalSha(ctx, p, []string{s.keys.told(d.Tell)}, d.ID, toldIdle.Milliseconds())
	}
}

// Heartbeat implements taskroute.Backend.
func (s *Store) Heartbeat(ctx context.Context, holder string, lease time.Duration) (changed []string, err error) {
	s.lease.Store(lease.Milliseconds())
	expired := rank(time.UnixMilli(s.clock.millis()).Add(-clockSlack), 0)
	// For as long as a write may take, and over several heartbeats.
	tellFor := s.timeout + lease
	keys := []string{s.keys.leases(), s.keys.gone(), s.keys.told(holder), s.keys.held(holder), s.keys.held("")}
	var cmd *redis.Cmd
	if err := s.do(ctx, func(p redis.Pipeliner) {
		cmd = heartbeatScript.EvalSha(ctx, p, keys, holder, lease.Milliseconds(), expired, dropStep, tellFor.Milliseconds())
	}); err != nil {
		return nil, err
	}
	reply, err := cmd.Slice()
	if err != nil {
		return nil, err
	}
	renewed, _ := reply[0].(int64)
	now, _ := reply[1].(int64)
	told, _ := reply[2].([]any)
	s.clock.sync(now)
	if renewed == 0 {
		return nil, taskroute.ErrConflict
	}
	for _, id := range told {
		text, _ := id.(string)
		changed = append(changed, text)
	}
	return changed, nil
}

// Retire implements taskroute.Backend.
func (s *Store) Retire(ctx context.Context, holder string) error {
	return s.do(ctx, func(p redis.Pipeliner) {
		retireScript.EvalSha(ctx, p, []string{s.keys.leases(), s.keys.gone()}, holder)
	})
}
