package redisstore_test

import (
	"crypto/rand"
	"testing"

	"taskgate/internal/redistest"
	"taskgate/taskroute"
	"taskgate/taskroute/redisstore"
	"taskgate/taskroute/storetest"
)

func TestBackend(t *testing.T) { runSuite(t, redistest.Start(t).URL()) }

func TestBackendInCluster(t *testing.T) { runSuite(t, redistest.StartCluster(t).URL()) }

func runSuite(t *testing.T, url string) {
	storetest.Run(t, func(t *testing.T) taskroute.Backend { return open(t, url, rand.Text()) })
	storetest.RunPair(t, func(t *testing.T) (a, b taskroute.Backend) {
		prefix := rand.Text()
		return open(t, url, prefix), open(t, url, prefix)
	})
}

// open opens a store that ends with the test.
func open(t testing.TB, url, prefix string) *redisstore.Store {
	t.Helper()
	return openWith(t, url, redisstore.Options{Prefix: prefix})
}

func openWith(t testing.TB, url string, opts redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}
