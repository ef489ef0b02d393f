package redisstore_test

import (
	"strings"
	"testing"

	"taskgate/internal/redistest"
	"taskgate/taskroute/redisstore"
)

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    []string
		opts    redisstore.Options
		serious []string
	}{
		{"as it should be", []string{"--appendfsync", "always", "--maxmemory", "1gb"}, redisstore.Options{}, nil},
		{"as redis comes", []string{"--appendonly", "no"}, redisstore.Options{}, []string{"appendonly is off"}},
		{"a cache", []string{"--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"}, redisstore.Options{}, []string{"maxmemory-policy is allkeys-lru"}},
		{"no sync", []string{"--appendfsync", "no"}, redisstore.Options{}, []string{"appendfsync is no"}},
		{"no replicas", nil, redisstore.Options{WaitReplicas: 1}, []string{"it has 0 replicas and waitReplicas is 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t, c.args...)
			found, err := openWith(t, server.URL(), c.opts).Report(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var serious []string
			for _, f := range found {
				if !strings.Contains(f.Text, server.Addr) {
					t.Errorf("the finding does not say where: %q", f.Text)
				}
				if f.Serious {
					serious = append(serious, f.Text)
				}
			}
			if len(serious) != len(c.serious) {
				t.Fatalf("serious findings are %q, want %q", serious, c.serious)
			}
			for i, want := range c.serious {
				if !strings.Contains(serious[i], want) {
					t.Errorf("finding %q, want %q in it", serious[i], want)
				}
			}
		})
	}
}
