package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// KeysOptions say where an issuer's keys are and how often they are read.
type KeysOptions struct {
	// Source returns a JWK Set (RFC 7517, section 5).
	Source func(context.Context) ([]byte, error)
	// Interval is between two readings. After a failed one the next comes after
	// RetryMin, then twice that, up to Interval.
	Interval time.Duration
	RetryMin time.Duration
	// Unknown is the least time between two readings that a token with an
	// unknown key causes: anybody can make up such tokens.
	Unknown time.Duration
	// Timeout bounds one reading.
	Timeout time.Duration

	Now func() time.Time
	Log *zap.Logger
}

// Keys are an issuer's public keys. A new key is found when a token uses it, an
// old one is gone after Interval; when the issuer is away, what is known stays.
type Keys struct {
	opts    KeysOptions
	current atomic.Pointer[keyfunc.Keyfunc] // nil: never read
	unknown *rate.Limiter
	flight  singleflight.Group
}

// NewKeys returns Keys that nothing is known of yet; Run keeps them up to date.
func NewKeys(o KeysOptions) *Keys {
	return &Keys{opts: o, unknown: rate.NewLimiter(rate.Every(o.Unknown), 1)}
}

// Run reads the keys now and then, until ctx ends.
func (k *Keys) Run(ctx context.Context) error {
	for retry := k.opts.RetryMin; ; {
		wait := k.opts.Interval
		if err := k.refresh(ctx); err != nil && ctx.Err() == nil {
			wait, retry = retry, min(2*retry, k.opts.Interval)
			k.opts.Log.Warn("keys of the token issuer cannot be read; the known ones hold on", zap.Error(err), zap.Duration("nextTry", wait))
		} else {
			retry = k.opts.RetryMin
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var (
	errUnknownKey = errors.New("no such key")
	errTooSoon    = errors.New("keys were read a moment ago")
)

// find returns the key that a token says it is signed with. Errors wrap
// errUnknownKey, or are an *UnavailableError.
func (k *Keys) find(ctx context.Context, t *jwt.Token) (any, error) {
	key, err := k.known(t)
	if !errors.Is(err, errUnknownKey) {
		return key, err
	}
	refreshErr := k.refreshFor(ctx)
	if key, err = k.known(t); errors.Is(err, errUnknownKey) && k.current.Load() == nil {
		return nil, &UnavailableError{fmt.Errorf("keys of the token issuer: %w", refreshErr)}
	}
	return key, err
}

func (k *Keys) known(t *jwt.Token) (any, error) {
	set := k.current.Load()
	if set == nil {
		return nil, errUnknownKey
	}
	key, err := (*set).Keyfunc(t)
	if errors.Is(err, jwkset.ErrKeyNotFound) {
		return nil, errUnknownKey
	}
	return key, err
}

// refreshFor reads the keys for a token with an unknown one, unless that was
// done a moment ago. Those who ask at once share the reading.
func (k *Keys) refreshFor(ctx context.Context) error {
	done := k.flight.DoChan("", func() (any, error) {
		if !k.unknown.AllowN(k.opts.Now(), 1) {
			return nil, errTooSoon
		}
		return nil, k.refresh(context.WithoutCancel(ctx))
	})
	select {
	case r := <-done:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *Keys) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.opts.Timeout)
	defer cancel()
	raw, err := k.opts.Source(ctx)
	if err != nil {
		return err
	}
	set, err := parseKeys(raw)
	if err != nil {
		return err
	}
	k.current.Store(&set)
	return nil
}

// parseKeys reads a JWK Set. Keys of kinds that are not known, and those that
// are not for signatures, are passed over.
func parseKeys(raw []byte) (keyfunc.Keyfunc, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("JWK Set: %w", err)
	}
	store := jwkset.NewMemoryStorage()
	usable := 0
	for _, raw := range set.Keys {
		key, err := jwkset.NewJWKFromRawJSON(raw, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
		if err != nil || store.KeyWrite(context.Background(), key) != nil {
			continue
		}
		usable++
	}
	if usable == 0 {
		return nil, errors.New("JWK Set: no key in it can be used")
	}
	return keyfunc.New(keyfunc.Options{Storage: store, UseWhitelist: []jwkset.USE{jwkset.UseSig, ""}})
}
