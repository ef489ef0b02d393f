// Package redisstore is a taskroute.Backend in Redis (7.0 or later): a single
// server, one behind Sentinel, or a Cluster.
//
// One string per task holds everything but what is large; its key, those of large
// parts, and its tombstone's carry the id as hash tag, so that a script touches one slot. The indexes live in slots of
// their own and are hints: an entry is written before the record that needs it
// and dropped after, so one may be stale but none is missing.
package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"taskgate/taskroute"
)

// Options of a Store.
type Options struct {
	// Prefix begins every key and channel; "" is "taskgate". Gateways that share
	// it share their tasks.
	Prefix string
	// Username, Password, Addresses (further nodes), MasterName and PoolSize add
	// to what the URL says, or take its place, where they are not zero.
	Username, Password string
	Addresses          []string
	MasterName         string
	PoolSize           int
	// WaitReplicas is how many replicas must have a new document before Create is
	// done; 0: none. It is for one server with replicas, as under Sentinel.
	WaitReplicas int
	// Timeout is how long one operation may take, with its retries; 0 is 5 s.
	Timeout time.Duration
	// Now is the local clock; nil is time.Now.
	Now func() time.Time
}

const (
	defaultPrefix  = "taskgate"
	defaultTimeout = 5 * time.Second
	// defaultPoolSize lets Redis sync many writes at once under "appendfsync
	// always"; the library's default is made for few processors, not for that.
	defaultPoolSize = 128
)

// Store is a taskroute.Backend in Redis.
type Store struct {
	client  redis.UniversalClient
	cluster bool
	timeout time.Duration
	copies  int // Options.WaitReplicas
	keys    keys
	self    string // names this process in hints
	clock   *clock
	memory  memory
	writers *combiner
	lease   atomic.Int64 // ms, of the last heartbeat
}

var _ taskroute.Backend = (*Store)(nil)

// Open connects to the servers that rawURL names:
//
//	redis://user:password@host:port/db      one server; rediss:// with TLS
//	unix://user:password@/path?db=1         one server on a socket
//	redis://host:port,host:port             a Cluster; or one host and ?cluster=true
//	redis://host:port,host:port/db?master=m Sentinels that watch the master m
//
// Further parameters are those of go-redis, such as pool_size, but for its
// retries: they would run a script twice. The error holds no password.
func Open(ctx context.Context, rawURL string, opts Options) (*Store, error) {
	universal, err := parseURL(rawURL, opts)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	s := newStore(universal, opts)
	if s.cluster && s.copies > 0 {
		_ = s.client.Close() // nothing was sent yet
		return nil, errClusterCopies
	}
	if err := s.start(ctx); err != nil {
		_ = s.client.Close() // the first error says more
		return nil, fmt.Errorf("open redis at %s: %w", universal.Addrs, err)
	}
	return s, nil
}

var errClusterCopies = errors.New("waitReplicas is for one server with replicas, not for a Cluster: leave it out")

func newStore(universal *redis.UniversalOptions, opts Options) *Store {
	if opts.Prefix == "" {
		opts.Prefix = defaultPrefix
	}
	if opts.Timeout == 0 {
		opts.Timeout = defaultTimeout
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	ours(universal, opts.Timeout)
	s := &Store{
		client: redis.NewUniversalClient(universal), timeout: opts.Timeout, copies: opts.WaitReplicas, keys: keys{opts.Prefix + ":"},
		self: rand.Text()[:8], clock: &clock{now: opts.Now},
	}
	s.writers = &combiner{fly: s.fly, timeout: opts.Timeout}
	_, s.cluster = s.client.(*redis.ClusterClient)
	return s
}

// start learns the server's time and gives it the scripts.
func (s *Store) start(ctx context.Context) error {
	var now *redis.TimeCmd
	if err := s.do(ctx, func(p redis.Pipeliner) { now = p.Time(ctx) }); err != nil {
		return err
	}
	s.clock.sync(now.Val().UnixMilli())
	return s.loadScripts(ctx)
}

// Collect implements taskroute.Backend: Redis expires by itself.
func (s *Store) Collect(ctx context.Context, _ time.Time) (int, error) { return 0, ctx.Err() }

// Now implements taskroute.Backend: it is the server's time.
func (s *Store) Now() time.Time { return time.UnixMilli(s.clock.millis()) }

// Ping implements taskroute.Backend.
func (s *Store) Ping(ctx context.Context) error {
	return s.do(ctx, func(p redis.Pipeliner) { p.Ping(ctx) })
}

// Close implements taskroute.Backend.
func (s *Store) Close() error { return s.client.Close() }
