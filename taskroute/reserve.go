package taskroute

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// reservation says which record stands for a key, and until when. It is a
// document beside the records: creating one is how a Backend lets exactly one
// of many win.
type reservation struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"`
}

// reservedID is never a ValidID, so no client can name a reservation.
func reservedID(key string) string { return "reserved-" + key }

// Reserved is the id that was reserved for key; "" when there is none, or its
// time is over.
func (s *Store) Reserved(ctx context.Context, key string) (id string, err error) {
	res, _, err := s.reservation(ctx, key)
	if err != nil || !s.opts.Now().Before(res.Until) {
		return "", err
	}
	return res.ID, nil
}

// Reserve lets the record id stand for key from now on, for ttl. When another
// was faster, at any replica, it returns the id of that one. instead is the id
// that may be displaced, "" for none. Keys have one length and are no secrets.
func (s *Store) Reserve(ctx context.Context, key, id, instead string, ttl time.Duration) (winner string, err error) {
	d, err := reserving(key, reservation{ID: id, Until: s.opts.Now().Add(ttl)})
	if err != nil {
		return "", err
	}
	nonce := rand.Text()
	for {
		err := s.backend.Create(ctx, d, nonce)
		if err == nil {
			return id, nil
		}
		if !errors.Is(err, ErrExists) {
			return "", fmt.Errorf("reserve: %w", err)
		}
		winner, err = s.displace(ctx, key, d, instead)
		if err == nil && winner == "" {
			return id, nil
		}
		if winner != "" || (!errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotFound)) || ctx.Err() != nil {
			return winner, err
		}
	}
}

// displace writes d over a reservation that is over or may go, or returns who
// has it.
func (s *Store) displace(ctx context.Context, key string, d Doc, instead string) (winner string, err error) {
	res, revision, err := s.reservation(ctx, key)
	if err != nil {
		return "", err
	}
	if res.ID != instead && s.opts.Now().Before(res.Until) {
		return res.ID, nil
	}
	if err := s.backend.Replace(ctx, revision, d, rand.Text()); err != nil {
		return "", fmt.Errorf("reserve again: %w", err)
	}
	return "", nil
}

// reservation is the zero one when there is none; its revision is then 0.
func (s *Store) reservation(ctx context.Context, key string) (res reservation, revision uint64, err error) {
	d, err := s.backend.Get(ctx, reservedID(key), PartState)
	if errors.Is(err, ErrNotFound) {
		return res, 0, nil
	}
	if err != nil {
		return res, 0, fmt.Errorf("read reservation: %w", err)
	}
	if err := json.Unmarshal(d.Parts[PartState], &res); err != nil {
		return res, 0, fmt.Errorf("stored reservation is damaged: %w", err)
	}
	return res, d.Revision, nil
}

func reserving(key string, res reservation) (Doc, error) {
	state, err := json.Marshal(res)
	if err != nil {
		return Doc{}, fmt.Errorf("encode reservation: %w", err)
	}
	d := Doc{ID: reservedID(key), ExpiresAt: res.Until, ForgetAt: res.Until}
	d.Parts[PartState] = state
	return d, nil
}
