package redisstore_test

import (
	"crypto/rand"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"taskgate/internal/redistest"
	"taskgate/taskroute"
)

// bareCreate is the least that a create could be: one script that looks whether
// the key is there, writes 0.9 kB and sets an expiry.
var bareCreate = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'rev', 1, 's', ARGV[1], 'r', ARGV[2])
redis.call('PEXPIRE', KEYS[1], 3600000)
return 1`)

func bareClient(b *testing.B, server *redistest.Server) *redis.Client {
	b.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, PoolSize: 128})
	b.Cleanup(func() { _ = c.Close() })
	return c
}

func BenchmarkCreate(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("store/callers=%d", callers), func(b *testing.B) {
			s := open(b, redistest.Start(b).URL(), "bench")
			each(b, callers, func() error { return s.Create(b.Context(), doc("r1"), rand.Text()) })
		})
		b.Run(fmt.Sprintf("evalsha/callers=%d", callers), func(b *testing.B) {
			c := bareClient(b, redistest.Start(b))
			each(b, callers, func() error {
				return bareCreate.Run(b.Context(), c, []string{"{" + rand.Text() + "}"}, make([]byte, 450), make([]byte, 450)).Err()
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	server := redistest.Start(b)
	s, c := open(b, server.URL(), "bench"), bareClient(b, server)
	d := doc("r1")
	if err := s.Create(b.Context(), d, "n"); err != nil {
		b.Fatal(err)
	}
	if err := bareCreate.Run(b.Context(), c, []string{"bare"}, make([]byte, 450), make([]byte, 450)).Err(); err != nil {
		b.Fatal(err)
	}
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("store/callers=%d", callers), func(b *testing.B) {
			each(b, callers, func() error {
				_, err := s.Get(b.Context(), d.ID, taskroute.PartState, taskroute.PartInput, taskroute.PartOutcome)
				return err
			})
		})
		b.Run(fmt.Sprintf("hgetall/callers=%d", callers), func(b *testing.B) {
			each(b, callers, func() error { return c.HGetAll(b.Context(), "bare").Err() })
		})
	}
}

func BenchmarkReplace(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := open(b, redistest.Start(b).URL(), "bench")
			docs := make(chan taskroute.Doc, callers)
			for range callers {
				d := doc("r1")
				if err := s.Create(b.Context(), d, "n"); err != nil {
					b.Fatal(err)
				}
				d.Revision, d.Parts[taskroute.PartRequest] = 1, nil
				docs <- d
			}
			each(b, callers, func() error {
				d := <-docs
				defer func() { d.Revision++; docs <- d }()
				return s.Replace(b.Context(), d.Revision, d, rand.Text())
			})
		})
	}
}

// each runs op b.N times in all, from callers goroutines.
func each(b *testing.B, callers int, op func() error) {
	b.Helper()
	todo := make(chan struct{}, b.N)
	for range b.N {
		todo <- struct{}{}
	}
	close(todo)
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range todo {
				if err := op(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
