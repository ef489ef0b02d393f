package taskrun

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/reqcoord"
	"taskgate/taskroute"
	"taskgate/taskroute/memstore"
	"taskgate/upstream"
)

// instant is an upstream that answers at once.
type instant struct{ *scripted }

func (instant) Send(context.Context, upstream.Request, upstream.Handler) upstream.Pending[upstream.Reply] {
	return upstream.Later(func() (upstream.Reply, error) { return reply(hello), nil })
}

// BenchmarkBackgroundCall is a call that is a task from its beginning to its end,
// with next to nothing of a store or of an upstream.
func BenchmarkBackgroundCall(b *testing.B) {
	store, err := taskroute.NewStore(memstore.New(time.Now), taskroute.Options{Now: time.Now, Tombstone: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	r := New(store, reqcoord.New(nil, time.Now), map[string]upstream.Caller{"up": instant{}}, Options{
		Now: time.Now, Lease: time.Hour, StoreTimeout: storeTimeout, CancelGrace: cancelGrace, Recheck: recheck, Reread: time.Hour,
		ProgressEvery: progressEvery, Log: zap.NewNop(), Metrics: prometheus.NewRegistry()})
	if err := r.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	call := aCall(atOnce)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Call(b.Context(), call, nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := r.Drain(context.Background()); err != nil {
		b.Error(err)
	}
}
