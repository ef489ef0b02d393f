package redisstore_test

import (
	"strings"
	"testing"

	"taskgate/internal/redistest"
)

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    []string
		serious []string
	}{
		{"as it should be", []string{"--appendfsync", "always", "--maxmemory", "1gb"}, nil},
		{"as redis comes", []string{"--appendonly", "no"}, []string{"appendonly is off"}},
		{"a cache", []string{"--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"}, []string{"maxmemory-policy is allkeys-lru"}},
		{"no sync", []string{"--appendfsync", "no"}, []string{"appendfsync is no"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t, c.args...)
			found, err := open(t, server.URL(), "report").Report(t.Context())
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
