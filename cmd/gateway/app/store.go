package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"taskgate/config"
	"taskgate/internal/seal"
	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
	"taskgate/taskroute/memstore"
	"taskgate/taskroute/redisstore"
)

// terminalCache is how many ended tasks are kept in memory, which no operator
// had a reason to change yet.
const terminalCache = 4096

// newStore is what reads and writes records in the backend. ended is told of those
// that have ended; nil: nobody is.
func newStore(b taskroute.Backend, cfg config.Config, log *zap.Logger, ended func(*taskroute.Record)) (*taskroute.Store, error) {
	keys, err := newRing(cfg.Encryption, log)
	if err != nil {
		return nil, err
	}
	return taskroute.NewStore(b, taskroute.Options{
		Now: b.Now, Tombstone: cfg.Tombstone, CacheSize: terminalCache, Seal: keys, Ended: ended,
		Limit: taskroute.Usage{Open: cfg.Limits.MaxOpenTasksPerPrincipal, Bytes: int64(cfg.Limits.MaxStoredBytesPerPrincipal)},
	})
}

// newRing is nil without keys: then nothing is encrypted. The log tells which id is
// which key's, because that is how messages call them.
func newRing(e config.Encryption, log *zap.Logger) (*seal.Ring, error) {
	if len(e.Keys) == 0 {
		return nil, nil
	}
	var keys []seal.Key
	for i, secret := range e.Keys {
		key, err := seal.ParseKey(secret.Value())
		if err != nil {
			return nil, fmt.Errorf("encryption.keys[%d]: %w", i, err)
		}
		keys = append(keys, key)
		log.Info("a key for the store", zap.Stringer("key", secret), zap.String("id", key.ID()), zap.Bool("encrypts", i == 0))
	}
	return seal.NewRing(keys, e.Plaintext == config.PlaintextRefuse), nil
}

// Rekey writes every task in the store anew that is not encrypted with the first
// key of cfg. failed is told what cannot be read, and stays as it is. An embedded
// store is then compacted: free pages of its file would keep what was there.
func Rekey(ctx context.Context, cfg config.Config, log *zap.Logger, failed func(id string, err error)) (taskroute.Rekeyed, error) {
	kind := cfg.Store.Kind()
	switch {
	case len(cfg.Encryption.Keys) == 0:
		return taskroute.Rekeyed{}, errors.New("no key is configured; write encryption: {keys: [file:PATH]}")
	case kind == config.StoreMemory:
		return taskroute.Rekeyed{}, errors.New("store: memory is gone with the gateway; there is nothing to encrypt anew")
	}
	done, err := rekey(ctx, cfg, log, failed)
	if err != nil {
		return done, fmt.Errorf("store %s: %w", cfg.Store, err)
	}
	if kind == config.StoreEmbedded {
		_, _, err = boltstore.Compact(string(cfg.Store))
	}
	return done, err
}

func rekey(ctx context.Context, cfg config.Config, log *zap.Logger, failed func(id string, err error)) (done taskroute.Rekeyed, err error) {
	b, err := openStore(ctx, cfg, log)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	s, err := newStore(b, cfg, log, nil)
	if err != nil {
		return done, err
	}
	return s.Rekey(ctx, failed)
}

// openStore opens the store that the configuration names.
func openStore(ctx context.Context, cfg config.Config, log *zap.Logger) (taskroute.Backend, error) {
	switch cfg.Store.Kind() {
	case config.StoreMemory:
		return memstore.New(time.Now), nil
	case config.StoreEmbedded:
		store, err := boltstore.Open(string(cfg.Store), time.Now)
		if err != nil {
			return nil, err // not store, which would be a Backend that is not nil
		}
		return store, nil
	}
	return openRedis(ctx, cfg, log)
}

// openRedis connects, and tells of settings that may lose tasks.
func openRedis(ctx context.Context, cfg config.Config, log *zap.Logger) (taskroute.Backend, error) {
	r := cfg.Redis
	store, err := redisstore.Open(ctx, string(cfg.Store), redisstore.Options{
		Prefix: r.Prefix, Username: r.Username, Password: r.Password.Value(),
		Addresses: r.Addresses, MasterName: r.MasterName, PoolSize: r.PoolSize, WaitReplicas: r.WaitReplicas, Timeout: cfg.Timeouts.Store,
	})
	if err != nil {
		return nil, err
	}
	findings, err := store.Report(ctx)
	if err != nil {
		log.Warn("the settings of Redis could not be looked at", zap.Error(err))
	}
	for _, f := range findings {
		level := zap.InfoLevel
		if f.Serious {
			level = zap.WarnLevel
		}
		log.Log(level, f.Text)
	}
	return store, nil
}
