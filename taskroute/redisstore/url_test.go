package redisstore

import (
	"slices"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		url     string
		addrs   []string
		master  string
		cluster bool
		db      int
	}{
		{url: "redis://h", addrs: []string{"h:6379"}},
		{url: "redis://h:7000/3", addrs: []string{"h:7000"}, db: 3},
		{url: "redis://u:p@h:7000?db=2", addrs: []string{"h:7000"}, db: 2},
		{url: "rediss://u:p%40x@h", addrs: []string{"h:6379"}},
		{url: "unix:///run/redis.sock?db=1", addrs: []string{"/run/redis.sock"}, db: 1},
		{url: "redis://a:1,b:2,c", addrs: []string{"a:1", "b:2", "c:6379"}, cluster: true},
		{url: "redis://u:p@[::1]:1,[::2]", addrs: []string{"[::1]:1", "[::2]:6379"}, cluster: true},
		{url: "redis://a:1?cluster=true", addrs: []string{"a:1"}, cluster: true},
		{url: "redis://a:1,b/1?master=m", addrs: []string{"a:1", "b:26379"}, master: "m", db: 1},
	} {
		o, err := parseURL(c.url, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		isCluster := o.MasterName == "" && (o.IsClusterMode || len(o.Addrs) > 1)
		if !slices.Equal(o.Addrs, c.addrs) || o.MasterName != c.master || isCluster != c.cluster || o.DB != c.db {
			t.Errorf("%s: addrs %q, master %q, cluster %v, db %d", c.url, o.Addrs, o.MasterName, isCluster, o.DB)
		}
		if want := strings.HasPrefix(c.url, "rediss"); (o.TLSConfig != nil) != want {
			t.Errorf("%s: TLS is %v, want %v", c.url, o.TLSConfig != nil, want)
		}
		if strings.Contains(c.url, "u:p") && (o.Username != "u" || o.Password[:1] != "p") {
			t.Errorf("%s: user %q, password %q", c.url, o.Username, o.Password)
		}
	}
}

func TestOptionsAddToURL(t *testing.T) {
	o, err := parseURL("redis://u:p@a", Options{
		Username: "v", Password: "q", Addresses: []string{"b:1", "c"}, MasterName: "m", PoolSize: 7,
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a:6379", "b:1", "c:26379"}; !slices.Equal(o.Addrs, want) {
		t.Errorf("addresses %q, want %q", o.Addrs, want)
	}
	if o.Username != "v" || o.Password != "q" || o.MasterName != "m" || o.PoolSize != 7 {
		t.Errorf("user %q, password %q, master %q, pool of %d", o.Username, o.Password, o.MasterName, o.PoolSize)
	}
}

func TestParseURLRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"http://h":                             "scheme",
		"h:6379":                               "",
		"redis://u:secret@h:port":              "port",
		"redis://u:secret@h/x":                 "database",
		"redis://u:secret@h?colour=red":        "colour",
		"redis://a,,b":                         "empty host",
		"redis://a,b/1":                        "database 0",
		"redis://a,b?cluster=false":            "several hosts",
		"redis://a?cluster=yes":                "true or false",
		"redis://a,b?cluster=true&master=m":    "exclude",
		"redis://u:secret\x7f@h":               "",
		"redis://u:secret@h:1%2":               "",
		"redis://u:secret@h?pool_size=a&db=%z": "",
	} {
		_, err := parseURL(url, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q in it", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error gives the password away: %v", url, err)
		}
	}
}
