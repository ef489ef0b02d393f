package redisstore

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"taskgate/taskroute"
)

// hintBuffer is how many hints may wait for a slow receiver.
const hintBuffer = 1024

// Hints implements taskroute.Backend. With each subscription, the first and
// those after a lost connection, something may have been missed.
func (s *Store) Hints(ctx context.Context, f func(id string)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sub := s.client.Subscribe(ctx, s.keys.changed())
	defer sub.Close()
	events := sub.ChannelWithSubscriptions(redis.WithChannelSize(hintBuffer))
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, ok := <-events:
			if !ok {
				return redis.ErrClosed
			}
			s.hint(event, f)
		}
	}
}

// hintOf is what tells the other replicas of a document.
func (s *Store) hintOf(d taskroute.Doc) string { return s.self + " " + d.ID }

// awaited are the channel to tell them on that there is a new one, and how; "": on none.
func (s *Store) awaited(d taskroute.Doc) []any {
	if !d.Awaited {
		return []any{"", ""}
	}
	return []any{s.keys.changed(), s.hintOf(d)}
}

func (s *Store) hint(event any, f func(id string)) {
	switch e := event.(type) {
	case *redis.Subscription:
		f("")
	case *redis.Message:
		if process, id, ok := strings.Cut(e.Payload, " "); ok && process != s.self {
			f(id)
		}
	}
}
