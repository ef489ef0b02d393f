// Package quota says how much a caller may do before others would suffer:
// rates, as token buckets, and how much may be open at once. Its memory is
// bounded whatever callers there are.
package quota

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Rate is Burst events at once, and one more each Every. The zero Rate is no limit.
type Rate struct {
	Every time.Duration
	Burst int
}

// PerSecond is a Rate of n events a second.
func PerSecond(n, burst int) Rate {
	return Rate{Every: time.Second / time.Duration(n), Burst: burst}
}

// Buckets are token buckets by key, those that were used of late. A key that had
// to make room for others begins again with a full bucket: a flood of new keys
// takes nothing from anybody.
type Buckets[K comparable] struct {
	mu   sync.Mutex // so that a key never has two
	keys *lru.Cache[K, *rate.Limiter]
}

// NewBuckets returns Buckets for at most size keys.
func NewBuckets[K comparable](size int) *Buckets[K] {
	keys, _ := lru.New[K, *rate.Limiter](max(size, 1)) // fails for less only
	return &Buckets[K]{keys: keys}
}

// Open gives the key a full bucket, unless it has one of this rate.
func (b *Buckets[K]) Open(key K, r Rate) {
	if r.Every <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	limit := rate.Every(r.Every)
	if has, ok := b.keys.Get(key); !ok || has.Limit() != limit || has.Burst() != r.Burst {
		b.keys.Add(key, rate.NewLimiter(limit, r.Burst))
	}
}

// Take takes a token out of the key's bucket. When there is none it says how
// long until there will be; a key without a bucket never waits.
func (b *Buckets[K]) Take(key K, now time.Time) (wait time.Duration) {
	bucket, ok := b.keys.Get(key)
	if !ok || bucket.AllowN(now, 1) {
		return 0
	}
	missing := 1 - bucket.TokensAt(now)
	return max(time.Duration(missing/float64(bucket.Limit())*float64(time.Second)), time.Nanosecond)
}

// Close drops the key's bucket.
func (b *Buckets[K]) Close(key K) { b.keys.Remove(key) }

// Len is how many keys have a bucket.
func (b *Buckets[K]) Len() int { return b.keys.Len() }
