package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"taskgate/taskroute"
)

const (
	// deadLimit bounds the dead holders that one sweep sees; others follow once
	// these are buried.
	deadLimit = 1000
	// rememberDead is how long a buried holder is refused another lease.
	rememberDead = 24 * time.Hour
	// createGrace is how long after its holder's death the entry of a document
	// that is not there is kept: a create may still be under way.
	createGrace = 10 * time.Minute
)

// position is where a sweep is: at a cursor of the server. Orphans is then in the
// set of a holder, and visits that of holder "" first, then those of the dead in
// order of name; List is among the keys of a master.
type position struct {
	of     string
	cursor uint64
}

func (p position) String() string { return strconv.FormatUint(p.cursor, 10) + " " + p.of }

func parsePosition(s string) (position, error) {
	if s == "" {
		return position{}, nil
	}
	cursor, of, _ := strings.Cut(s, " ")
	n, err := strconv.ParseUint(cursor, 10, 64)
	if err != nil {
		return position{}, fmt.Errorf("cursor %q is none of ours", s)
	}
	return position{of, n}, nil
}

// Orphans implements taskroute.Backend. Without orphans it is one round trip.
func (s *Store) Orphans(ctx context.Context, cursor string, limit int) (orphans []taskroute.Orphan, next string, err error) {
	at, err := parsePosition(cursor)
	if err != nil {
		return nil, "", err
	}
	var deadReply *redis.Cmd
	var page *redis.ScanCmd
	if err := s.do(ctx, func(p redis.Pipeliner) {
		deadReply = deadScript.EvalSha(ctx, p, []string{s.keys.leases()}, deadLimit)
		page = p.ZScan(ctx, s.keys.held(at.of), at.cursor, "", int64(limit))
	}); err != nil {
		return nil, "", err
	}
	now, dead, err := parseDead(deadReply)
	if err != nil {
		return nil, "", err
	}
	members, pageEnd := page.Val()
	if _, isDead := dead[at.of]; isDead || at.of == "" {
		if orphans, err = s.sift(ctx, at.of, members, now, dead[at.of]); err != nil {
			return nil, "", err
		}
	}
	return orphans, s.advance(ctx, at.of, pageEnd, dead), nil
}

// advance is the cursor after a page that ended at pageEnd; 0 is the set's end.
func (s *Store) advance(ctx context.Context, holder string, pageEnd uint64, dead map[string]int64) string {
	if pageEnd != 0 {
		return position{holder, pageEnd}.String()
	}
	if _, isDead := dead[holder]; isDead {
		s.bury(ctx, holder)
	}
	names := slices.Sorted(maps.Keys(dead))
	i, _ := slices.BinarySearch(names, holder+"\x00")
	if i == len(names) {
		return ""
	}
	return position{of: names[i]}.String()
}

// bury takes a dead holder that holds nothing out of later sweeps. It is tidying
// up, and tried again in the next sweep.
func (s *Store) bury(ctx context.Context, holder string) {
	_ = s.do(ctx, func(p redis.Pipeliner) {
		keys := []string{s.keys.leases(), s.keys.gone(), s.keys.held(holder)}
		buryScript.EvalSha(ctx, p, keys, holder, rememberDead.Milliseconds())
	})
}

// parseDead reads the reply of dead.lua: since when each holder is dead, in ms.
func parseDead(reply *redis.Cmd) (now int64, dead map[string]int64, err error) {
	values, err := reply.Slice()
	if err != nil {
		return 0, nil, err
	}
	now, _ = values[0].(int64)
	dead = make(map[string]int64, len(values)/2)
	for i := 1; i+1 < len(values); i += 2 {
		holder, _ := values[i].(string)
		deadline, _ := values[i+1].(string)
		n, err := strconv.ParseInt(deadline, 10, 64)
		if err != nil {
			return 0, nil, fmt.Errorf("deadline of a holder: %w", err)
		}
		dead[holder] = max(n, -n)
	}
	return now, dead, nil
}

// sift looks at the documents of a page of holder's entries. It returns those
// that are orphans and drops the entries that are stale. The holder is dead since
// then.
func (s *Store) sift(ctx context.Context, holder string, members []string, now, since int64) (orphans []taskroute.Orphan, err error) {
	records := make([]*redis.StringCmd, len(members)/2)
	if len(records) == 0 {
		return nil, nil
	}
	if err := s.do(ctx, func(p redis.Pipeliner) {
		for i := range records {
			records[i] = p.Get(ctx, s.keys.task(members[2*i]))
		}
	}); err != nil {
		return nil, err
	}
	var stale []any
	for i, record := range records {
		id, rankText := members[2*i], members[2*i+1]
		switch s.judge(holder, rankText, record, now, since) {
		case orphaned:
			orphans = append(orphans, taskroute.Orphan{ID: id, Holder: holder})
		case staleEntry:
			stale = append(stale, id, rankText)
		}
	}
	s.unhold(ctx, holder, stale)
	return orphans, nil
}

type verdict int

const (
	waiting verdict = iota // for its create, or for somebody to take it
	orphaned
	staleEntry
)

// judge compares an index entry with its document.
func (s *Store) judge(holder, rankText string, stored *redis.StringCmd, now, since int64) verdict {
	if errors.Is(stored.Err(), redis.Nil) {
		if holder != "" && now-since > createGrace.Milliseconds() {
			return staleEntry
		}
		return waiting // or expired, and dropped with what has
	}
	r, err := parseRecord(stored.Val())
	x, err2 := parseIndex(r.index)
	entry, err3 := strconv.ParseInt(rankText, 10, 64)
	switch {
	case err != nil || err2 != nil || err3 != nil:
		return orphaned // damaged: who loads it will say how
	case x.isHeld() && x.holder == holder:
		if holder == "" && now-x.written < s.lease.Load() {
			return waiting
		}
		return orphaned
	case revisionOf(entry) <= r.revision:
		return staleEntry
	}
	return waiting // it is being taken by holder right now
}

// unhold drops entries, given as pairs of id and rank, unless they were written
// again since. It is tidying up, and tried again in the next sweep.
func (s *Store) unhold(ctx context.Context, holder string, pairs []any) {
	if len(pairs) == 0 {
		return
	}
	_ = s.do(ctx, func(p redis.Pipeliner) {
		unholdScript.EvalSha(ctx, p, []string{s.keys.held(holder)}, pairs...)
	})
}
