package taskroute

import (
	"context"
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

// reservedIDs name the document of key: the first a new one, the others those
// that were made before encryption keys were rotated. A key is a digest of what
// a client sent, which who reads the store could guess at; so there is a secret
// in it when there is one. None is a ValidID, so no client can name a reservation.
func (s *Store) reservedIDs(key string) []string {
	ids := s.opts.Seal.Digests(key)
	for i := range ids {
		ids[i] = "reserved-" + ids[i]
	}
	return ids
}

// Reserved is the id that was reserved for key; "" when there is none, or its
// time is over.
func (s *Store) Reserved(ctx context.Context, key string) (id string, err error) {
	for _, name := range s.reservedIDs(key) {
		res, _, err := s.reservation(ctx, name)
		if err != nil {
			return "", err
		}
		if s.opts.Now().Before(res.Until) {
			return res.ID, nil
		}
	}
	return "", nil
}

// Reserve lets the record id stand for key from now on, for ttl. When another
// was faster, at any replica, it returns the id of that one. instead is the id
// that may be displaced, "" for none.
func (s *Store) Reserve(ctx context.Context, key, id, instead string, ttl time.Duration) (winner string, err error) {
	name := s.reservedIDs(key)[0]
	d, err := reserving(name, reservation{ID: id, Until: s.opts.Now().Add(ttl)})
	if err != nil {
		return "", err
	}
	nonce := newNonce()
	for {
		err := s.backend.Create(ctx, d, nonce)
		if err == nil {
			return id, nil
		}
		if !errors.Is(err, ErrExists) {
			return "", fmt.Errorf("reserve: %w", err)
		}
		winner, err = s.displace(ctx, d, instead)
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
func (s *Store) displace(ctx context.Context, d Doc, instead string) (winner string, err error) {
	res, revision, err := s.reservation(ctx, d.ID)
	if err != nil {
		return "", err
	}
	if res.ID != instead && s.opts.Now().Before(res.Until) {
		return res.ID, nil
	}
	if err := s.backend.Replace(ctx, revision, d, newNonce()); err != nil {
		return "", fmt.Errorf("reserve again: %w", err)
	}
	return "", nil
}

// reservation is the zero one when there is none; its revision is then 0.
func (s *Store) reservation(ctx context.Context, name string) (res reservation, revision uint64, err error) {
	d, err := s.backend.Get(ctx, name, PartState)
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

func reserving(name string, res reservation) (Doc, error) {
	state, err := json.Marshal(res)
	if err != nil {
		return Doc{}, fmt.Errorf("encode reservation: %w", err)
	}
	d := Doc{ID: name, ExpiresAt: res.Until, ForgetAt: res.Until}
	d.Parts[PartState] = state
	return d, nil
}
