package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"taskgate/quota"
	"taskgate/taskroute"
	"taskgate/wire"
)

// Quota bounds what callers can ask of this replica, so that none takes it from
// the others.
type Quota struct {
	// Requests are those of all callers together, PrincipalRequests of each.
	Requests, PrincipalRequests quota.Rate
	// Streams of subscriptions/listen, and PrincipalStreams, are how many may be open.
	Streams, PrincipalStreams int
	// EarlyPolls is how often a task may be polled ahead of its poll interval
	// before its polls have to keep to it.
	EarlyPolls int
}

// remembered bounds the callers, and the polled tasks, whose rate is known.
const remembered = 16 << 10

// quotas is the use that is made of a Quota.
type quotas struct {
	Quota
	requests *quota.Buckets[taskroute.Owner] // nobody is all of them
	polls    *quota.Buckets[polled]
	streams  *quota.Slots // by owner
	slowed   *quota.Slots // by owner: refusals that are held back
}

func newQuotas(q Quota) *quotas {
	return &quotas{
		Quota: q, requests: quota.NewBuckets[taskroute.Owner](remembered), polls: quota.NewBuckets[polled](remembered),
		streams: quota.NewSlots(q.PrincipalStreams, q.Streams), slowed: quota.NewSlots(slowedEach, slowedAll),
	}
}

// A refusal with status 429 is held back for a while, so that a caller who
// does not heed it cannot ask for much more than it may over its connections. The
// while is never the same, else all of them would come back at once, and others
// wait behind them. Few are held back at once, since each keeps a connection.
const (
	slowDown   = 100 * time.Millisecond // on average
	slowedEach = 64
	slowedAll  = 1024
)

// slow holds a refusal back.
func (q *quotas) slow(ctx context.Context, owner taskroute.Owner) {
	if q.slowed.Take(owner.String()) != nil {
		return
	}
	defer q.slowed.Give(owner.String())
	t := time.NewTimer(slowDown/2 + rand.N(slowDown))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// overQuota is a request that would have been one too many. It had no effect.
type overQuota struct {
	reason, message string
	limit           int
	wait            time.Duration // until the next may come; 0: not known
}

func (e *overQuota) Error() string { return e.message }

func (e *overQuota) rpc() *wire.Error {
	return wire.Errorf(wire.CodeInternal, "%s", e.message).WithData(map[string]any{
		"reason": e.reason, "retriable": true, "retryAfterMs": e.wait.Milliseconds() + 1, "limit": e.limit,
	})
}

// request counts one request of a caller.
func (q *quotas) request(owner taskroute.Owner, now time.Time) error {
	for _, bucket := range []struct {
		of    taskroute.Owner
		whose string
		rate  quota.Rate
	}{{owner, "this caller", q.PrincipalRequests}, {taskroute.Owner{}, "all callers together", q.Requests}} {
		q.requests.Open(bucket.of, bucket.rate)
		if wait := q.requests.Take(bucket.of, now); wait > 0 {
			limit := int(time.Second / bucket.rate.Every)
			message := fmt.Sprintf("Too many requests of %s: the limit is %d a second", bucket.whose, limit)
			return &overQuota{reason: "too_many_requests", message: message, limit: limit, wait: wait}
		}
	}
	return nil
}

// polled is a task that its owner asks for.
type polled struct {
	owner taskroute.Owner
	id    string
}

// poll counts one tasks/get of a task that its owner has read before. It is
// asked before the store is.
func (q *quotas) poll(owner taskroute.Owner, id string, now time.Time) error {
	wait := q.polls.Take(polled{owner, id}, now)
	if wait == 0 {
		return nil
	}
	return &overQuota{reason: "polled_too_fast", limit: q.EarlyPolls, wait: wait,
		message: "The task is polled faster than its pollIntervalMs; it is unharmed, ask again after retryAfterMs"}
}

// polled notes what a task's owner was told of its poll interval. Nobody polls a
// task that has ended.
func (q *quotas) polled(rec *taskroute.Record) {
	key := polled{rec.State.Owner, rec.ID}
	if rec.State.Status.Terminal() {
		q.polls.Close(key)
		return
	}
	q.polls.Open(key, quota.Rate{Every: rec.State.PollInterval, Burst: q.EarlyPolls})
}

// stream takes the place of one subscriptions/listen; done gives it back.
func (q *quotas) stream(owner taskroute.Owner) (done func(), err error) {
	key := owner.String()
	err = q.streams.Take(key)
	if err == nil {
		return func() { q.streams.Give(key) }, nil
	}
	limit := q.Streams
	if errors.Is(err, quota.ErrOwn) {
		limit = q.PrincipalStreams
	}
	message := fmt.Sprintf("Too many open streams: %v, which is %d", err, limit)
	return nil, &overQuota{reason: "too_many_streams", message: message, limit: limit, wait: time.Second}
}
