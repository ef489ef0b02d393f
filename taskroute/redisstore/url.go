package redisstore

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// parseURL understands what Open documents. go-redis reads all of it but the
// list of hosts and the two parameters of our own.
func parseURL(raw string, opts Options) (*redis.UniversalOptions, error) {
	hosts, single := cutHosts(raw)
	u, err := url.Parse(single)
	if err != nil {
		return nil, withoutURL(err)
	}
	query := u.Query()
	master, cluster := cmp.Or(opts.MasterName, query.Get("master")), query.Get("cluster")
	query.Del("master")
	query.Del("cluster")
	u.RawQuery = query.Encode()
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, withoutURL(err)
	}
	o.Username, o.Password = cmp.Or(opts.Username, o.Username), cmp.Or(opts.Password, o.Password)
	o.PoolSize = cmp.Or(opts.PoolSize, o.PoolSize, defaultPoolSize)
	addrs := []string{o.Addr}
	for _, host := range append(hosts, opts.Addresses...) {
		if host == "" {
			return nil, errors.New("there is an empty host in the list")
		}
		addrs = append(addrs, withPort(host, master != ""))
	}
	return universal(o, addrs, master, cluster)
}

// cutHosts takes all hosts but the first out of raw.
func cutHosts(raw string) (further []string, single string) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || scheme == "unix" {
		return nil, raw
	}
	end := len(rest)
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		end = i
	}
	start := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := strings.Split(rest[start:end], ",")
	return hosts[1:], scheme + "://" + rest[:start] + hosts[0] + rest[end:]
}

func universal(o *redis.Options, addrs []string, master, cluster string) (*redis.UniversalOptions, error) {
	switch isCluster := cluster == "true" || (len(addrs) > 1 && master == ""); {
	case cluster != "" && cluster != "true" && cluster != "false":
		return nil, errors.New(`parameter "cluster" is true or false`)
	case cluster == "true" && master != "":
		return nil, errors.New(`parameters "cluster" and "master" exclude each other`)
	case cluster == "false" && isCluster:
		return nil, errors.New(`several hosts are a cluster, or Sentinels with parameter "master"`)
	case isCluster && o.DB != 0:
		return nil, errors.New("a cluster has database 0 only")
	}
	if o.TLSConfig != nil && len(addrs) > 1 {
		o.TLSConfig.ServerName = "" // each host's own
	}
	return &redis.UniversalOptions{
		Addrs: addrs, MasterName: master, IsClusterMode: cluster == "true",
		DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		Protocol: o.Protocol, ClientName: o.ClientName,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		PoolFIFO: o.PoolFIFO, PoolSize: o.PoolSize, PoolTimeout: o.PoolTimeout,
		MinIdleConns: o.MinIdleConns, MaxIdleConns: o.MaxIdleConns, MaxActiveConns: o.MaxActiveConns,
		ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime,
	}, nil
}

func withPort(host string, sentinel bool) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "6379"
	if sentinel {
		port = "26379"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// buffer is that of a connection, in bytes: a few records. The library's 32 KB would be
// kept, twice, for each connection that a burst of calls has opened.
const buffer = 8 << 10

// ours sets what this package relies on. The library would run a script again
// when the reply was lost, ignore a context's deadline, and keep a second, small
// pool for pipelines, which is nearly all that we send.
func ours(o *redis.UniversalOptions, timeout time.Duration) {
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.PipelinePoolSize = -1
	o.ReadBufferSize, o.WriteBufferSize = buffer, buffer
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// Half, so that after one reply that never comes there is time to ask again, and
	// that who waits for a connection, and then for a new one, has waited no longer.
	for _, each := range []*time.Duration{&o.PoolTimeout, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout} {
		if *each == 0 {
			*each = timeout / 2
		}
	}
}

// withoutURL keeps the password that the URL may hold out of the error.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}
