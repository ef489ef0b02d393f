package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"taskgate/taskroute"
)

// entry is what is written before a document, so that it is never missing.
type entry struct {
	id     string
	holder string // in whose set the document is to be
	rank   int64  // there; 0: in nobody's
	tell   string // the holder that is to hear of the document; "": none
}

// entryOf is that of the document at the given revision.
func entryOf(d taskroute.Doc, x index, revision uint64) entry {
	e := entry{id: d.ID, holder: x.holder, tell: d.Tell}
	if x.isHeld() {
		e.rank = rank(d.ExpiresAt, revision)
	}
	return e
}

// enter has documents become orphans once their holders are dead. A holder gets its
// place among the leases too, and gets it last, since one that holds nothing may lose
// it: it would keep its documents for ever. And who is to hear of a document does so
// by its heartbeats.
func (s *Store) enter(ctx context.Context, p redis.Pipeliner, writes []*write) {
	held := map[string][]redis.Z{}
	for _, w := range writes {
		if w.entry.rank > 0 {
			held[w.entry.holder] = append(held[w.entry.holder], redis.Z{Score: float64(w.entry.rank), Member: w.entry.id})
		}
		if w.entry.tell != "" {
			tellScript.EvalSha(ctx, p, []string{s.keys.told(w.entry.tell)}, w.entry.id, toldIdle.Milliseconds())
		}
	}
	for holder, entries := range held {
		p.ZAddGT(ctx, s.keys.held(holder), entries...)
		if holder != "" {
			p.ZAddNX(ctx, s.keys.leases(), redis.Z{Score: -float64(s.clock.millis()), Member: holder})
		}
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
